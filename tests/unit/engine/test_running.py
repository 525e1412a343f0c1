"""Calls take a slot, start, and run: intent before effect, in the caller's task or their own, and no call runs twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.executors.stopping import attempt_of, is_abandoned, keep_late, stop
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.lifecycle.parking import Parking
from clicket.engine.lifecycle.running import Running
from clicket.engine.live_call import Call
from clicket.engine.local.loop_share import LoopShare
from clicket.engine.local.tasks import Tasks
from clicket.engine.slots.gate import SharedSlotGate
from clicket.errors import QueueFull
from clicket.kernel import State
from clicket.model.config import Limits
from clicket.ports import Duplicate
from clicket.runtime.settings import Settings


@tool
async def echo() -> str:
    return "echo"


@tool(max_concurrency=3)
async def limited() -> str:
    return "echo"


@tool(isolation="process")
def isolated() -> str:
    return "echo"


class Parts(Lower):
    def __init__(self, limits: Limits | None = None, *, max_queue: int = 10) -> None:
        super().__init__(echo, limited, isolated, limits=limits, max_queue=max_queue)
        self.admits = True
        self.tasks = Tasks()
        self.ran: list[Call] = []
        self.parked: list[Call] = []
        self.body = self._body
        core = self.with_core(gate=Recorder(SharedSlotGate, admits=lambda call: self.admits, release=self.release))
        handover: Any = Recorder(HandOver, end_stopped=self._end_stopped)
        parking: Any = Recorder(Parking, park=self.parked.append)
        share = LoopShare(self.clock.monotonic)
        share.over_at = float("inf")
        self.running_part = Running(core, self.ending, handover, self.stopping_part(), parking, share, self.tasks)

    def _body(self, call: Call) -> Any:
        assert self.store.record(call).state is State.RUNNING, "intent before effect"
        self.ran.append(call)
        call.output = "echo"
        return None

    def _end_stopped(self, call: Call, *, execute: bool = False) -> None:
        assert call.stopping is not None
        self.pipeline.end_stopped(call, call.stopping, self.ending.on_outcome_durable, execute=execute)

    def slow(self) -> asyncio.Future[Any]:
        """From here on bodies wait for the test."""
        gate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def rest(call: Call) -> None:
            call.output = await gate

        self.body = rest
        return gate


# A slot.


async def test_a_call_with_a_slot_runs_in_a_task_of_its_own() -> None:
    parts = Parts()
    call = parts.admitted("echo")
    parts.running_part.take_slot(call)
    assert parts.store.record(call).state is State.RUNNING
    assert (parts.ran, len(parts.tasks.running)) == ([], 1)
    await parts.settle()
    assert call.result is not None
    assert (call.result.output, call.slot, parts.tasks.running) == ("echo", False, set())


async def test_a_call_without_a_slot_is_durable_and_does_not_wait_for_ever() -> None:
    parts = Parts(Settings(max_concurrency=1, queue_timeout=30.0).limits)
    first, second = parts.admitted("echo", id="a"), parts.admitted("echo", id="b")
    parts.slow()
    parts.running_part.take_slot(first)
    parts.running_part.take_slot(second)
    assert (parts.store.record(second).state, second.queued, parts.clock.pending) == (State.PENDING, True, [30.0])
    parts.clock.advance(30.0)
    assert parts.logged("queue") == [second]
    for task in parts.tasks.running:
        task.cancel()
    await parts.clock.settle()


async def test_the_time_in_the_queue_counts_from_when_the_call_gets_there() -> None:
    """Before that it may have waited for a person, or for a process."""
    parts = Parts(Settings(max_concurrency=1, queue_timeout=30.0).limits)
    call = parts.queued("echo")
    parts.clock.advance(20.0)
    parts.running_part.wait_in_queue(call)
    assert parts.clock.pending == [30.0]
    parts.clock.advance(10.0)
    parts.running_part.wait_in_queue(call)
    assert parts.clock.pending == [20.0], "the wait goes on"


async def test_a_full_queue_leaves_no_trace_of_a_new_call_and_takes_one_that_exists() -> None:
    parts = Parts(Settings(max_concurrency=1).limits, max_queue=0)
    old = parts.pending("echo", id="old")
    parts.limiter.used[old.plan.needs[0]] = 1
    new = parts.admitted("echo", id="new")
    with pytest.raises(QueueFull):
        parts.running_part.take_slot(new)
    assert (await parts.store.load("new"), list(parts.live), parts.clock.pending) == ([], [old], [])
    parts.running_part.take_slot(old)
    assert old.queued


async def test_a_call_that_needs_a_shared_slot_starts_when_the_gate_admits_it() -> None:
    parts = Parts()
    parts.admits = False
    call = parts.admitted("limited")
    parts.running_part.take_slot(call)
    assert call.entry.state is State.PENDING
    parts.admits = True
    parts.timers.wait(call, 5.0, "queue")
    parts.running_part.start_attempt(call)
    assert (call.entry.state, parts.clock.pending) == (State.RUNNING, [])
    await parts.settle()


async def test_a_process_is_made_ready_before_the_attempt_counts_as_started() -> None:
    parts = Parts()
    call = parts.admitted("isolated")
    parts.slow().set_result("x")
    parts.running_part.take_slot(call)
    assert (parts.store.record(call).state, call.entry.attempts) == (State.INITIALIZING, 0)
    parts.journal.advance(call.entry, State.RUNNING)
    await parts.settle()


async def test_a_call_whose_start_the_store_refuses_never_runs() -> None:
    parts = Parts()
    parts.store.refusal = Duplicate("taken")
    call = parts.admitted("echo")
    parts.running_part.take_slot(call)
    await parts.settle()
    assert (parts.ran, call.slot, list(parts.live)) == ([], False, [])
    with pytest.raises(Duplicate):
        await parts.running_part.run(call)


# In the caller's task.


async def test_a_caller_that_waits_runs_the_body_itself() -> None:
    parts = Parts()
    call = parts.admitted("echo", in_callers_task=True)
    parts.running_part.take_slot(call)
    assert (call.ready, parts.tasks.running) == (True, set())
    result = await parts.running_part.run(call)
    assert (result.output, parts.tasks.running, parts.ran) == ("echo", set(), [call])


async def test_a_caller_waits_for_the_start_to_be_durable() -> None:
    parts = Parts()
    parts.store.holding = True
    call = parts.admitted("echo", in_callers_task=True)
    parts.running_part.take_slot(call)
    running = asyncio.ensure_future(parts.running_part.run(call))
    await parts.settle()
    assert parts.ran == []
    parts.store.let_through()
    assert (await running).output == "echo"


async def test_a_caller_that_leaves_before_the_start_leaves_no_work_behind() -> None:
    parts = Parts()
    parts.store.holding = True
    call = parts.admitted("echo", in_callers_task=True)
    parts.running_part.take_slot(call)
    running = asyncio.ensure_future(parts.running_part.run(call))
    await parts.settle()
    running.cancel()
    await asyncio.sleep(0)
    parts.store.let_through()
    await asyncio.wait([running])
    await parts.settle()
    assert running.cancelled()
    assert (call.stopping, call.cancel_reason) == ("cancel", "its caller was cancelled")
    assert call.slot is False


async def test_a_caller_that_leaves_a_queued_call_cancels_it() -> None:
    parts = Parts(Settings(max_concurrency=1).limits)
    call = parts.queued("echo", in_callers_task=True)
    running = asyncio.ensure_future(parts.running_part.run(call))
    await parts.settle()
    running.cancel()
    await asyncio.wait([running])
    assert call.result is not None
    assert (call.result.state, parts.limiter.queued, parts.ran) == (State.CANCELLED, 0, [])


async def test_a_call_that_ended_while_its_start_was_stored_does_not_run() -> None:
    parts = Parts()
    call = parts.running("echo")
    call.seal()
    parts.running_part.on_start_durable(call, None)
    await parts.settle()
    assert (parts.ran, call.slot) == ([], False)


# Bodies that do not stop.


async def test_an_abandoned_body_keeps_its_slot_and_what_it_brings_is_a_late_result() -> None:
    parts = Parts()
    gate = parts.slow()
    call = parts.admitted("echo")
    parts.running_part.take_slot(call)
    await parts.settle()
    stop(call, "deadline")
    parts.running_part.abandon(call)
    assert call.result is not None
    assert (call.result.state, call.result.metadata["abandoned"]) == (State.TIMEOUT, True)
    assert (call.slot, parts.ending.abandoned) == (True, {call})
    keep_late(attempt_of(call), "after all", None)
    gate.set_result("after all")
    await parts.settle()
    assert (call.slot, parts.ending.abandoned, is_abandoned(call)) == (False, set(), False)
    last = parts.store.events_of(call)[-1]
    assert (last.type, last.data) == ("late_result", {"output": "after all"})
    assert parts.store.record(call).state is State.TIMEOUT
    assert parts.logged("release") == [call]


async def test_a_body_that_was_cancelled_at_last_brings_nothing() -> None:
    parts = Parts()
    call = parts.running("echo")
    stop(call, "deadline")
    parts.running_part.abandon(call)
    before = len(parts.store.events_of(call))
    parts.running_part.on_returned(call, None)
    assert (call.slot, len(parts.store.events_of(call))) == (False, before)


async def test_after_closing_a_late_result_is_not_written() -> None:
    parts = Parts()
    call = parts.running("echo")
    stop(call, "deadline")
    parts.running_part.abandon(call)
    before = len(parts.store.events_of(call))
    parts.phase.closed = True
    parts.running_part.on_returned(call, ("late", None))
    assert (call.slot, len(parts.store.events_of(call))) == (False, before)


async def test_a_body_without_a_stop_request_or_whose_call_has_ended_is_not_abandoned() -> None:
    parts = Parts()
    call = parts.running("echo")
    parts.running_part.abandon(call)
    assert (call.ending, is_abandoned(call)) == (False, False)
    stop(call, "deadline")
    call.seal()
    parts.running_part.abandon(call)
    assert not is_abandoned(call)


async def test_the_caller_goes_on_when_its_body_is_abandoned() -> None:
    parts = Parts()
    call = parts.running("echo")
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    attempt_of(call).gate = gate
    stop(call, "deadline")
    parts.running_part.abandon(call)
    assert gate.done()


async def test_an_error_while_a_call_is_brought_to_its_end_is_logged_and_the_task_ends(caplog: Any) -> None:
    parts = Parts()

    def broken(call: Call, on_durable: Any) -> None:
        raise RuntimeError("a bug of ours")

    call = parts.admitted("echo")
    parts.pipeline.finish = broken  # type: ignore[method-assign]
    parts.running_part.take_slot(call)
    await parts.settle()
    assert "could not be brought to its end" in caplog.text
    assert parts.tasks.running == set()
