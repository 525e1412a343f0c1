"""Calls that change owners: given away complete, claimed by key, and handed back on close only if repeating them is safe."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.call import Call, Question
from clicket.engine.handover import HandOver
from clicket.engine.placement import Placement
from clicket.engine.stored_calls import Closed, StoredCalls
from clicket.errors import StoreUnavailable
from clicket.execution.stopping import Stopped, stop
from clicket.journal import Fenced
from clicket.kernel import State
from clicket.ports import Duplicate, NoNotices, Stored


@tool
async def plain() -> str:
    return ""


@tool(idempotent=True)
async def repeatable() -> str:
    return ""


@tool(recovery="rerun")
async def rerun() -> str:
    return ""


@tool(recovery="ask")
async def asking() -> str:
    return ""


@tool(idempotent=True, recovery="fail")
async def failing() -> str:
    return ""


class World(Lower):
    def __init__(self, *, shares: bool = True) -> None:
        super().__init__(plain, repeatable, rerun, asking, failing)
        self.resumed: list[Stored] = []
        self.stored_calls = StoredCalls(
            self.store, self.clock, is_closing=lambda: False, hears=lambda: False, spawn=asyncio.ensure_future
        )
        self.handover = HandOver(
            self.journal,
            self.store,
            self.pipeline,
            self.live,
            self.timers,
            self.ending,
            self.stored_calls,
            Placement(NoNotices(), self.clock),
            shares=shares,
            question=Question(),
            approval_timeout=60.0,
            queue_of=self.queues.queue_of,
            resume=self._resume,
            release=self.release,
            give_slot=lambda name: self.log.append(("slot", name)),
            spawn=self.spawn,
        )

    async def _resume(self, claimed: list[Stored]) -> None:
        self.resumed += claimed

    def stopped(self, name: str) -> Call:
        """A running call that a closing runtime stopped."""
        call = self.running(name)
        stop(call, "shutdown", "the runtime was closed")
        return call


# Giving away.


async def test_a_call_that_is_given_away_has_no_owner_and_its_waiters_follow_the_store() -> None:
    world = World()
    call = world.admitted("plain")
    waiter = asyncio.ensure_future(world.ending.outcome(call))
    created = asyncio.ensure_future(world.ending.created(call))
    await world.settle()
    world.handover.give_away(call)
    await created
    with pytest.raises(Fenced):
        await waiter
    assert (world.store.is_owned(call), list(world.live), call.slot) == (False, [], False)
    assert [stored.id for stored in await world.store.claim_waiting(frozenset({"plain"}), 1)] == ["a"]


async def test_a_call_that_could_not_be_given_away_does_not_exist() -> None:
    world = World()
    world.store.refusal = Duplicate("taken")
    call = world.admitted("plain", deadline=5.0)
    world.handover.give_away(call)
    with pytest.raises(Duplicate):
        await world.ending.outcome(call)
    assert (list(world.live), world.clock.pending) == ([], []), "no timer looks for it later"


async def test_a_call_that_no_process_claims_by_its_deadline_is_ended_from_here() -> None:
    world = World()
    call = world.admitted("plain", deadline=5.0)
    world.handover.give_away(call)
    await world.clock.run(4.9)
    assert world.resumed == []
    await world.clock.run(0.2)
    assert [stored.key for stored in world.resumed] == [call.entry.key]


async def test_an_unanswered_approval_expires_here() -> None:
    world = World()
    call = world.admitted("plain")
    call.approval_timeout = 30.0
    world.journal.wait_for(call.entry, "approval")
    world.handover.give_away(call)
    await world.clock.run(30.0)
    assert len(world.resumed) == 1


async def test_the_trial_of_a_tool_lasts_until_the_call_has_ended_elsewhere() -> None:
    world = World()
    call = world.admitted("plain")
    call.hold_trial("trial:plain")
    world.handover.give_away(call)
    await world.clock.run(1.0)
    assert world.logged("slot") == []
    (stored,) = await world.store.claim_waiting(frozenset({"plain"}), 1)
    other = Lower(plain, store=world.store)
    there = other.made("plain")
    other.journal.adopt(stored, there.entry, attempts=0, started_at=None, state=State.PENDING)
    other.pipeline.find(there)
    other.pipeline.stop(there, "cancel", lambda call, error: None)
    await world.clock.run(1.0)
    assert world.logged("slot") == ["trial:plain"]


# Claiming.


async def test_a_call_without_an_owner_is_taken_and_one_with_an_owner_is_not() -> None:
    world = World()
    call = world.pending("plain")
    await world.handover.take(call.entry.key)
    assert world.resumed == []
    await world.store.hand_back([call.entry.key])
    await world.handover.take(call.entry.key)
    assert [stored.key for stored in world.resumed] == [call.entry.key]


async def test_an_unreachable_store_is_retried_until_the_runtime_closes() -> None:
    world = World()
    asked: list[int] = []

    async def claim(key: int) -> Stored | None:
        asked.append(key)
        raise StoreUnavailable("away")

    world.store.claim = claim  # type: ignore[method-assign]
    world.spawn(world.handover.take(1))
    await world.clock.run(2.5)
    assert asked == [1, 1, 1]
    world.handover.closing = True
    await world.clock.run(5.0)
    assert (asked, world.spawned[0].done()) == ([1, 1, 1], True)


# Handing back.


@pytest.mark.parametrize("name", ["repeatable", "rerun"])
async def test_what_may_be_repeated_is_handed_back_to_run_again(name: str) -> None:
    world = World()
    call = world.stopped(name)
    waiter = asyncio.ensure_future(world.ending.outcome(call))
    await world.settle()
    world.handover.end_stopped(call)
    with pytest.raises(Closed):
        await waiter
    record = world.store.record(call)
    assert (record.state, record.waiting_for, world.store.is_owned(call)) == (State.RETRYING, None, False)
    assert record.attempts[-1].error is not None
    assert record.attempts[-1].error.code == "outcome_unknown"
    assert (world.logged("release"), list(world.live)) == ([call], [])


async def test_a_tool_that_asks_has_its_question_on_record_when_it_is_handed_back() -> None:
    world = World()
    call = world.stopped("asking")
    world.handover.end_stopped(call)
    record = world.store.record(call)
    assert (record.state, record.waiting_for, world.store.is_owned(call)) == (State.RETRYING, "approval", False)
    assert record.approval is not None
    assert (record.approval["purpose"], record.approval["deadline"]) == ("recovery", world.clock.now() + 60.0)


@pytest.mark.parametrize("name", ["plain", "failing"])
async def test_the_outcome_of_what_may_not_be_repeated_is_unknown(name: str) -> None:
    world = World()
    call = world.stopped(name)
    world.handover.end_stopped(call)
    assert call.result is not None
    assert (call.result.state, world.logged("release")) == (State.FAILED, [call])
    assert call.result.error is not None
    assert call.result.error.code == "outcome_unknown"


async def test_a_call_between_two_attempts_is_handed_back_as_it_is_whatever_its_tool_allows() -> None:
    world = World()
    call = world.running("plain")
    world.journal.advance(call.entry, State.RETRYING, {"attempt": 1, "error": None, "delay": 9.0})
    stop(call, "shutdown")
    world.handover.end_stopped(call)
    assert (world.store.record(call).state, world.store.is_owned(call)) == (State.RETRYING, False)


async def test_a_body_that_the_closing_stopped_is_handed_back() -> None:
    world = World()
    call = world.stopped("repeatable")

    def stopped(each: Call) -> Any:
        raise Stopped("shutdown")

    world.body = stopped
    world.pipeline.perform(call)
    world.handover.close_stopped(call)
    assert (call.result, world.store.is_owned(call)) == (None, False)


async def test_where_no_other_process_can_run_it_a_stopped_call_is_cancelled() -> None:
    world = World(shares=False)
    call = world.stopped("repeatable")
    world.handover.end_stopped(call)
    assert call.result is not None
    assert (call.result.state, world.store.is_owned(call)) == (State.CANCELLED, True)


async def test_other_reasons_than_closing_end_the_call() -> None:
    world = World()
    call = world.running("repeatable")
    stop(call, "deadline")
    world.handover.end_stopped(call, execute=True)
    assert call.result is not None
    assert (call.result.state, call.result.stages["execute"].outcome) == (State.TIMEOUT, "timeout")


async def test_waiters_learn_that_the_store_refused_the_hand_back_and_the_slot_is_free() -> None:
    world = World()
    call = world.stopped("repeatable")
    waiter = asyncio.ensure_future(world.ending.outcome(call))
    await world.settle()
    world.store.steal(call)
    world.handover.end_stopped(call)
    await world.settle()
    with pytest.raises(Fenced):
        await waiter
    assert (world.logged("release"), call.slot) == ([call], False)
