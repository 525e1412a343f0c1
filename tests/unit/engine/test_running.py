"""Calls take a slot, start, and run: intent before effect, in the caller's task or their own, and no call runs twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.call import Call
from clicket.engine.limits import Limits
from clicket.engine.loop_share import LoopShare
from clicket.engine.running import Running
from clicket.engine.stopping import Stopping
from clicket.engine.tasks import Tasks
from clicket.errors import QueueFull
from clicket.execution.stopping import attempt_of, is_abandoned, keep_late, stop
from clicket.kernel import State
from clicket.ports import Duplicate
from clicket.settings import Settings


@tool
async def echo() -> str:
    return "echo"


@tool(max_concurrency=3)
async def limited() -> str:
    return "echo"


@tool(isolation="process")
def isolated() -> str:
    return "echo"


class World(Lower):
    def __init__(self, limits: Limits | None = None, *, max_queue: int = 10) -> None:
        super().__init__(echo, limited, isolated, limits=limits, max_queue=max_queue)
        self.admits = True
        self.tasks = Tasks()
        self.ran: list[Call] = []
        self.parked: list[Call] = []
        self.body = self._body
        gate: Any = Recorder(admits=lambda call: self.admits, release=self.release)
        handover: Any = Recorder(end_stopped=self._end_stopped)
        share = LoopShare(self.clock.monotonic)
        share.over_at = float("inf")
        self.running_part = Running(
            self.journal,
            self.pipeline,
            self.live,
            self.limiter,
            gate,
            self.timers,
            self.ending,
            handover,
            Stopping(self.journal, self.pipeline, self.limiter, self.ending, self.external),
            share,
            self.tasks,
            self.limits,
            parked=self.parked.append,
        )

    def _body(self, call: Call) -> Any:
        assert self.store.record(call).state is State.RUNNING, "intent before effect"
        self.ran.append(call)
        call.output = "echo"
        return None

    def _end_stopped(self, call: Call, *, execute: bool = False) -> None:
        assert call.stopping is not None
        self.pipeline.stop(call, call.stopping, self.ending.on_outcome_durable, execute=execute)

    def slow(self) -> asyncio.Future[Any]:
        """From here on bodies wait for the test."""
        gate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def rest(call: Call) -> None:
            call.output = await gate

        self.body = rest
        return gate


# A slot.


async def test_a_call_with_a_slot_runs_in_a_task_of_its_own() -> None:
    world = World()
    call = world.admitted("echo")
    world.running_part.take_slot(call)
    assert world.store.record(call).state is State.RUNNING
    assert (world.ran, len(world.tasks.running)) == ([], 1)
    await world.settle()
    assert call.result is not None
    assert (call.result.output, call.slot, world.tasks.running) == ("echo", False, set())


async def test_a_call_without_a_slot_is_durable_and_does_not_wait_for_ever() -> None:
    world = World(Settings(max_concurrency=1, queue_timeout=30.0).limits())
    first, second = world.admitted("echo", id="a"), world.admitted("echo", id="b")
    world.slow()
    world.running_part.take_slot(first)
    world.running_part.take_slot(second)
    assert (world.store.record(second).state, second.queued, world.clock.pending) == (State.PENDING, True, [30.0])
    world.clock.advance(30.0)
    assert world.logged("queue") == [second]
    for task in world.tasks.running:
        task.cancel()
    await world.clock.settle()


async def test_the_time_that_a_call_has_waited_before_counts() -> None:
    world = World(Settings(max_concurrency=1, queue_timeout=30.0).limits())
    call = world.queued("echo")
    world.clock.advance(20.0)
    world.running_part.wait_in_queue(call)
    assert world.clock.pending == [10.0]
    world.running_part.wait_in_queue(call)
    assert world.clock.pending == [10.0]


async def test_a_full_queue_leaves_no_trace_of_a_new_call_and_takes_one_that_exists() -> None:
    world = World(Settings(max_concurrency=1).limits(), max_queue=0)
    old = world.pending("echo", id="old")
    world.limiter.used[old.plan.needs[0]] = 1
    new = world.admitted("echo", id="new")
    with pytest.raises(QueueFull):
        world.running_part.take_slot(new)
    assert (await world.store.load("new"), list(world.live), world.clock.pending) == ([], [old], [])
    world.running_part.take_slot(old)
    assert old.queued


async def test_a_call_that_needs_a_shared_slot_starts_when_the_gate_admits_it() -> None:
    world = World()
    world.admits = False
    call = world.admitted("limited")
    world.running_part.take_slot(call)
    assert call.entry.state is State.PENDING
    world.admits = True
    world.timers.wait(call, 5.0, "queue")
    world.running_part.start_attempt(call)
    assert (call.entry.state, world.clock.pending) == (State.RUNNING, [])
    await world.settle()


async def test_a_process_is_made_ready_before_the_attempt_counts_as_started() -> None:
    world = World()
    call = world.admitted("isolated")
    world.slow().set_result("x")
    world.running_part.take_slot(call)
    assert (world.store.record(call).state, call.entry.attempts) == (State.INITIALIZING, 0)
    world.journal.advance(call.entry, State.RUNNING)
    await world.settle()


async def test_a_call_whose_start_the_store_refuses_never_runs() -> None:
    world = World()
    world.store.refusal = Duplicate("taken")
    call = world.admitted("echo")
    world.running_part.take_slot(call)
    await world.settle()
    assert (world.ran, call.slot, list(world.live)) == ([], False, [])
    with pytest.raises(Duplicate):
        await world.running_part.run(call)


# In the caller's task.


async def test_a_caller_that_waits_runs_the_body_itself() -> None:
    world = World()
    call = world.admitted("echo", in_callers_task=True)
    world.running_part.take_slot(call)
    assert (call.ready, world.tasks.running) == (True, set())
    result = await world.running_part.run(call)
    assert (result.output, world.tasks.running, world.ran) == ("echo", set(), [call])


async def test_a_caller_waits_for_the_start_to_be_durable() -> None:
    world = World()
    world.store.holding = True
    call = world.admitted("echo", in_callers_task=True)
    world.running_part.take_slot(call)
    running = asyncio.ensure_future(world.running_part.run(call))
    await world.settle()
    assert world.ran == []
    world.store.let_through()
    assert (await running).output == "echo"


async def test_a_caller_that_leaves_before_the_start_leaves_no_work_behind() -> None:
    world = World()
    world.store.holding = True
    call = world.admitted("echo", in_callers_task=True)
    world.running_part.take_slot(call)
    running = asyncio.ensure_future(world.running_part.run(call))
    await world.settle()
    running.cancel()
    await asyncio.sleep(0)
    world.store.let_through()
    await asyncio.wait([running])
    await world.settle()
    assert running.cancelled()
    assert (call.stopping, call.cancel_reason) == ("cancel", "its caller was cancelled")
    assert call.slot is False


async def test_a_caller_that_leaves_a_queued_call_cancels_it() -> None:
    world = World(Settings(max_concurrency=1).limits())
    call = world.queued("echo", in_callers_task=True)
    running = asyncio.ensure_future(world.running_part.run(call))
    await world.settle()
    running.cancel()
    await asyncio.wait([running])
    assert call.result is not None
    assert (call.result.state, world.limiter.queued, world.ran) == (State.CANCELLED, 0, [])


async def test_a_call_that_ended_while_its_start_was_stored_does_not_run() -> None:
    world = World()
    call = world.running("echo")
    call.seal()
    world.running_part.on_start_durable(call, None)
    await world.settle()
    assert (world.ran, call.slot) == ([], False)


# Bodies that do not stop.


async def test_an_abandoned_body_keeps_its_slot_and_what_it_brings_is_a_late_result() -> None:
    world = World()
    gate = world.slow()
    call = world.admitted("echo")
    world.running_part.take_slot(call)
    await world.settle()
    stop(call, "deadline")
    world.running_part.abandon(call)
    assert call.result is not None
    assert (call.result.state, call.result.metadata["abandoned"]) == (State.TIMEOUT, True)
    assert (call.slot, world.ending.abandoned) == (True, {call})
    keep_late(attempt_of(call), "after all", None)
    gate.set_result("after all")
    await world.settle()
    assert (call.slot, world.ending.abandoned, is_abandoned(call)) == (False, set(), False)
    last = world.store.events_of(call)[-1]
    assert (last.type, last.data) == ("late_result", {"output": "after all"})
    assert world.store.record(call).state is State.TIMEOUT
    assert world.logged("release") == [call]


async def test_a_body_that_was_cancelled_at_last_brings_nothing() -> None:
    world = World()
    call = world.running("echo")
    stop(call, "deadline")
    world.running_part.abandon(call)
    before = len(world.store.events_of(call))
    world.running_part.on_returned(call, None)
    assert (call.slot, len(world.store.events_of(call))) == (False, before)


async def test_after_closing_a_late_result_is_not_written() -> None:
    world = World()
    call = world.running("echo")
    stop(call, "deadline")
    world.running_part.abandon(call)
    before = len(world.store.events_of(call))
    world.running_part.closed = True
    world.running_part.on_returned(call, ("late", None))
    assert (call.slot, len(world.store.events_of(call))) == (False, before)


async def test_a_body_without_a_stop_request_or_whose_call_has_ended_is_not_abandoned() -> None:
    world = World()
    call = world.running("echo")
    world.running_part.abandon(call)
    assert (call.ending, is_abandoned(call)) == (False, False)
    stop(call, "deadline")
    call.seal()
    world.running_part.abandon(call)
    assert not is_abandoned(call)


async def test_the_caller_goes_on_when_its_body_is_abandoned() -> None:
    world = World()
    call = world.running("echo")
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    attempt_of(call).gate = gate
    stop(call, "deadline")
    world.running_part.abandon(call)
    assert gate.done()


async def test_an_error_while_a_call_is_brought_to_its_end_is_logged_and_the_task_ends(caplog: Any) -> None:
    world = World()

    def broken(call: Call, on_durable: Any) -> None:
        raise RuntimeError("a bug of ours")

    call = world.admitted("echo")
    world.pipeline.finish = broken  # type: ignore[method-assign]
    world.running_part.take_slot(call)
    await world.settle()
    assert "could not be brought to its end" in caplog.text
    assert world.tasks.running == set()
