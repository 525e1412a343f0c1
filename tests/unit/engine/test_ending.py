"""How calls end: every waiter gets an answer, every slot is released once, and no outcome is lost without a log entry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.executors.stopping import abandon, attempt_of
from clicket.engine.journal import Entry, Fenced
from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.model import result_of
from clicket.ports import Duplicate, Unstorable


@tool
async def echo() -> str:
    return "echo"


async def test_every_waiter_gets_the_result_and_the_slot_is_given_back_once() -> None:
    low = Lower(echo)
    call = low.running("echo")
    waiters = [asyncio.ensure_future(low.ending.outcome(call)) for _ in range(3)]
    await low.settle()
    low.finish(call, "done")
    assert [result.output for result in await asyncio.gather(*waiters)] == ["done"] * 3
    assert (await low.ending.outcome(call)).output == "done", "a later waiter gets it, too"
    assert low.logged("release") == low.logged("ended") == [call]
    assert (call.slot, list(low.live)) == (False, [])


async def test_the_result_is_the_one_that_the_events_tell() -> None:
    low = Lower(echo)
    call = low.running("echo", metadata={"run": 7})
    low.finish(call, {"n": 1})
    assert call.result == result_of(low.store.record(call))


async def test_cancelling_one_waiter_does_not_affect_the_others() -> None:
    low = Lower(echo)
    call = low.running("echo")
    left, stays = (asyncio.ensure_future(low.ending.outcome(call)) for _ in range(2))
    await low.settle()
    left.cancel()
    await low.settle()
    low.finish(call)
    assert (await stays).state is State.COMPLETED
    assert left.cancelled()


async def test_nothing_is_answered_before_the_outcome_is_durable() -> None:
    low = Lower(echo)
    call = low.running("echo")
    waiter = asyncio.ensure_future(low.ending.outcome(call))
    await low.settle()
    low.store.holding = True
    low.finish(call)
    await low.settle()
    assert (waiter.done(), call.ended, call.slot, list(low.live)) == (False, False, True, [call])
    low.store.let_through()
    assert (await waiter).output == "done"


async def test_a_call_that_the_store_refuses_leaves_no_trace() -> None:
    low = Lower(echo)
    low.store.refusal = refusal = Duplicate("the id is taken")
    call = low.admitted("echo", deadline=5.0)
    assert low.limiter.take(call)
    low.live.add(call)
    low.timers.deadline(call, 5.0)
    created = asyncio.ensure_future(low.ending.created(call))
    waiter = asyncio.ensure_future(low.ending.outcome(call))
    await low.settle()
    low.journal.commit(call.entry, lambda error: low.ending.on_created(call, error))
    for future in (created, waiter):
        with pytest.raises(Duplicate):
            await future
    for later in (low.ending.created(call), low.ending.outcome(call)):
        with pytest.raises(Duplicate):
            await later
    assert (call.failure, call.ending, call.slot) == (refusal, True, False)
    assert (list(low.live), low.clock.pending, low.limiter.used) == ([], [], {})


async def test_a_queued_call_that_the_store_refuses_leaves_the_queue() -> None:
    low = Lower(echo)
    call = low.queued("echo")
    low.ending.on_created(call, StoreUnavailable("away"))
    assert (low.limiter.queued, call.queued) == (0, False)


async def test_created_waits_until_the_call_is_durable() -> None:
    low = Lower(echo)
    call = low.admitted("echo")
    created = asyncio.ensure_future(low.ending.created(call))
    await low.settle()
    assert not created.done()
    low.journal.commit(call.entry, lambda error: low.ending.on_created(call, error))
    await created
    await low.ending.created(call)


async def test_an_abandoned_body_keeps_its_slot_until_it_is_back() -> None:
    low = Lower(echo)
    call = low.running("echo")
    abandon(call)
    low.pipeline.end_stopped(call, "attempt", low.ending.on_outcome_durable, execute=True)
    assert call.result is not None, "the call has ended"
    assert call.result.state is State.TIMEOUT
    assert (call.slot, low.ending.abandoned, low.logged("release")) == (True, {call}, [])


async def test_an_abandoned_body_keeps_its_slot_also_when_the_outcome_cannot_be_stored() -> None:
    low = Lower(echo)
    call = low.running("echo")
    abandon(call)
    low.ending.on_outcome_durable(call, Unstorable("the row is damaged"))
    assert (call.slot, low.ending.abandoned, low.logged("release")) == (True, {call}, [])


async def test_an_outcome_that_comes_after_another_owner_took_the_call_is_kept_as_a_late_result() -> None:
    low = Lower(echo)
    call = low.running("echo")
    waiter = asyncio.ensure_future(low.ending.outcome(call))
    await low.settle()
    stored = low.store.steal(call)
    low.ending.supersede(call)
    low.finish(call, "late")
    await low.settle()
    with pytest.raises(Fenced):
        await waiter
    last = low.store.events_of(call)[-1]
    assert (last.type, last.state, last.data["output"]) == ("late_result", State.RUNNING, "late")
    assert low.store.of(call).fence == stored.fence, "the new owner still owns it"
    assert (low.logged("release"), low.logged("ended")) == ([call], []), "the old owner's outcome does not count"
    assert (low.ending.superseded, list(low.live)) == ({}, [])


async def test_a_lost_body_that_is_over_is_not_waited_for() -> None:
    low = Lower(echo)
    call = low.running("echo")
    low.store.steal(call)
    low.ending.supersede(call)
    low.finish(call, "late")
    await low.settle()
    async with asyncio.timeout(PATIENCE):
        await low.ending.stop_superseded(call)


async def test_a_late_result_that_cannot_be_kept_does_not_keep_the_waiters(caplog: Any) -> None:
    low = Lower(echo)
    call = low.running("echo")
    waiter = asyncio.ensure_future(low.ending.outcome(call))
    await low.settle()
    call.entry.fenced = True
    await low.store.close()
    low.ending.on_outcome_durable(call, Fenced("lost", events=[]))
    await low.settle()
    with pytest.raises(Fenced):
        await waiter
    assert "late result could not be stored" in caplog.text


async def test_the_call_takes_its_timers_its_trial_and_its_cache_place_with_it() -> None:
    low = Lower(echo)
    call = low.running("echo")
    call.hold_trial("trial:echo")
    call.cache_key = "k"
    low.timers.deadline(call, 5.0)
    low.timers.wait(call, 3.0, "queue")
    low.finish(call)
    assert (low.logged("slot"), low.logged("left")) == (["trial:echo"], [call])
    assert low.clock.pending == []
    low.ending.forget(call)
    assert low.logged("slot") == ["trial:echo"], "a slot is released once"


async def test_a_call_that_goes_to_another_process_answers_its_waiters_and_its_watchers() -> None:
    low = Lower(echo)
    call = low.running("echo")
    waiter, watcher = asyncio.ensure_future(low.ending.outcome(call)), low.journal.watch(call.entry)
    await low.settle()
    left: list[Entry] = []
    low.journal.observers.left.append(left.append)
    low.ending.let_go(call, Fenced("in other hands"))
    with pytest.raises(Fenced):
        await waiter
    assert watcher.done()
    assert list(low.live) == []
    assert left == [call.entry]


async def test_the_spool_of_a_streamed_output_is_closed_with_the_call() -> None:
    low = Lower(echo)
    call = low.running("echo")
    closed: list[bool] = []

    class Spool:
        in_memory = True
        size = 0

        def close(self) -> None:
            closed.append(True)

    class Sink:
        spool = Spool()
        costs = None
        announced = False

        def flush(self) -> None: ...

    attempt_of(call).sink = Sink()
    low.finish(call)
    assert closed == [True]
