"""Calls that change owners: given away complete, claimed by key, and handed back on close only if repeating them is safe."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.executors.stopping import Stopped, stop
from clicket.engine.fleet.placement import Placement
from clicket.engine.journal import Fenced
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.live_call import Call
from clicket.engine.records.stored_calls import Closed
from clicket.engine.stages import Policy
from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.ports import Duplicate, NoBus, Stored


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


class Parts(Lower):
    def __init__(self, *, shares: bool = True) -> None:
        super().__init__(plain, repeatable, rerun, asking, failing, policy=Policy(approval_timeout=60.0))
        self.resumed: list[Stored] = []
        self.inputs.claimed = self._resume
        self.stored_calls = self.core.stored_calls
        self.handover = HandOver(self.with_core(shares=shares), self.ending, Placement(NoBus(), self.clock))

    async def _resume(self, claimed: list[Stored]) -> None:
        self.resumed += claimed

    def stopped(self, name: str) -> Call:
        """A running call that a closing runtime stopped."""
        call = self.running(name)
        stop(call, "shutdown", "the runtime was closed")
        return call


# Giving away.


async def test_a_call_that_is_given_away_has_no_owner_and_its_waiters_follow_the_store() -> None:
    parts = Parts()
    call = parts.admitted("plain")
    waiter = asyncio.ensure_future(parts.ending.outcome(call))
    created = asyncio.ensure_future(parts.ending.created(call))
    await parts.settle()
    parts.handover.give_away(call)
    await created
    with pytest.raises(Fenced):
        await waiter
    assert (parts.store.is_owned(call), list(parts.live), call.slot) == (False, [], False)
    assert [stored.id for stored in await parts.store.claim_waiting(frozenset({"plain"}), 1)] == ["a"]


async def test_a_call_that_could_not_be_given_away_does_not_exist() -> None:
    parts = Parts()
    parts.store.refusal = Duplicate("taken")
    call = parts.admitted("plain", deadline=5.0)
    parts.handover.give_away(call)
    with pytest.raises(Duplicate):
        await parts.ending.outcome(call)
    assert (list(parts.live), parts.clock.pending) == ([], []), "no timer looks for it later"


async def test_a_call_that_no_process_claims_by_its_deadline_is_ended_from_here() -> None:
    parts = Parts()
    call = parts.admitted("plain", deadline=5.0)
    parts.handover.give_away(call)
    await parts.clock.run(4.9)
    assert parts.resumed == []
    await parts.clock.run(0.2)
    assert [stored.key for stored in parts.resumed] == [call.entry.key]


async def test_an_unanswered_approval_expires_here() -> None:
    parts = Parts()
    call = parts.admitted("plain")
    call.approval_timeout = 30.0
    parts.journal.wait_for(call.entry, "approval")
    parts.handover.give_away(call)
    await parts.clock.run(30.0)
    assert len(parts.resumed) == 1


async def test_the_trial_of_a_tool_lasts_until_the_call_has_ended_elsewhere() -> None:
    parts = Parts()
    call = parts.admitted("plain")
    call.hold_trial("trial:plain")
    parts.handover.give_away(call)
    await parts.clock.run(1.0)
    assert parts.logged("slot") == []
    (stored,) = await parts.store.claim_waiting(frozenset({"plain"}), 1)
    other = Lower(plain, store=parts.store)
    there = other.made("plain")
    other.journal.adopt(stored, there.entry, attempts=0, started_at=None, state=State.PENDING)
    other.pipeline.find(there)
    other.pipeline.end_stopped(there, "cancel", lambda call, error: None)
    await parts.clock.run(1.0)
    assert parts.logged("slot") == ["trial:plain"]


# Claiming.


async def test_a_call_without_an_owner_is_taken_and_one_with_an_owner_is_not() -> None:
    parts = Parts()
    call = parts.pending("plain")
    await parts.handover.take(call.entry.key)
    assert parts.resumed == []
    await parts.store.hand_back([call.entry.key])
    await parts.handover.take(call.entry.key)
    assert [stored.key for stored in parts.resumed] == [call.entry.key]


async def test_an_unreachable_store_is_retried_until_the_runtime_closes() -> None:
    parts = Parts()
    asked: list[int] = []

    async def claim(key: int) -> Stored | None:
        asked.append(key)
        raise StoreUnavailable("away")

    parts.store.claim = claim  # type: ignore[method-assign]
    parts.spawn(parts.handover.take(1))
    await parts.clock.run(2.5)
    assert asked == [1, 1, 1]
    parts.phase.closing = True
    await parts.clock.run(5.0)
    assert (asked, parts.spawned[0].done()) == ([1, 1, 1], True)


# Handing back.


@pytest.mark.parametrize("name", ["repeatable", "rerun"])
async def test_what_may_be_repeated_is_handed_back_to_run_again(name: str) -> None:
    parts = Parts()
    call = parts.stopped(name)
    waiter = asyncio.ensure_future(parts.ending.outcome(call))
    await parts.settle()
    parts.handover.end_stopped(call)
    with pytest.raises(Closed):
        await waiter
    record = parts.store.record(call)
    assert (record.state, record.waiting_for, parts.store.is_owned(call)) == (State.RETRYING, None, False)
    assert record.attempts[-1].error is not None
    assert record.attempts[-1].error.code == "outcome_unknown"
    assert (parts.logged("release"), list(parts.live)) == ([call], [])


async def test_a_tool_that_asks_has_its_question_on_record_when_it_is_handed_back() -> None:
    parts = Parts()
    call = parts.stopped("asking")
    parts.handover.end_stopped(call)
    record = parts.store.record(call)
    assert (record.state, record.waiting_for, parts.store.is_owned(call)) == (State.RETRYING, "approval", False)
    assert record.approval is not None
    assert (record.approval["purpose"], record.approval["deadline"]) == ("recovery", parts.clock.now() + 60.0)


@pytest.mark.parametrize("name", ["plain", "failing"])
async def test_the_outcome_of_what_may_not_be_repeated_is_unknown(name: str) -> None:
    parts = Parts()
    call = parts.stopped(name)
    parts.handover.end_stopped(call)
    assert call.result is not None
    assert (call.result.state, parts.logged("release")) == (State.FAILED, [call])
    assert call.result.error is not None
    assert call.result.error.code == "outcome_unknown"


async def test_a_call_between_two_attempts_is_handed_back_as_it_is_whatever_its_tool_allows() -> None:
    parts = Parts()
    call = parts.running("plain")
    parts.journal.advance(call.entry, State.RETRYING, {"attempt": 1, "error": None, "delay": 9.0})
    stop(call, "shutdown")
    parts.handover.end_stopped(call)
    assert (parts.store.record(call).state, parts.store.is_owned(call)) == (State.RETRYING, False)


async def test_a_body_that_the_closing_stopped_is_handed_back() -> None:
    parts = Parts()
    call = parts.stopped("repeatable")

    def stopped(each: Call) -> Any:
        raise Stopped("shutdown")

    parts.body = stopped
    parts.pipeline.perform(call)
    parts.handover.close_stopped(call)
    assert (call.result, parts.store.is_owned(call)) == (None, False)


async def test_where_no_other_process_can_run_it_a_stopped_call_is_cancelled() -> None:
    parts = Parts(shares=False)
    call = parts.stopped("repeatable")
    parts.handover.end_stopped(call)
    assert call.result is not None
    assert (call.result.state, parts.store.is_owned(call)) == (State.CANCELLED, True)


async def test_other_reasons_than_closing_end_the_call() -> None:
    parts = Parts()
    call = parts.running("repeatable")
    stop(call, "deadline")
    parts.handover.end_stopped(call, execute=True)
    assert call.result is not None
    assert (call.result.state, call.result.stages["execute"].outcome) == (State.TIMEOUT, "timeout")


async def test_waiters_learn_that_the_store_refused_the_hand_back_and_the_slot_is_free() -> None:
    parts = Parts()
    call = parts.stopped("repeatable")
    waiter = asyncio.ensure_future(parts.ending.outcome(call))
    await parts.settle()
    parts.store.steal(call)
    parts.handover.end_stopped(call)
    await parts.settle()
    with pytest.raises(Fenced):
        await waiter
    assert (parts.logged("release"), call.slot) == ([call], False)
