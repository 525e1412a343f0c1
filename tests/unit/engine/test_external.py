"""The wait for a result from outside, on a stepped clock: its timers, and the race of a result with a timeout or a cancel."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.fakes import Lower

from clicket import State, ToolContext, tool
from clicket.engine.executors import attempt_of
from clicket.engine.live_call import Call
from clicket.model import Record


@tool(external=True, timeout=100.0, idle_timeout=40.0)
async def job(ctx: ToolContext) -> None:
    pass


class Parts(Lower):
    def __init__(self) -> None:
        super().__init__(job)
        self.stopping = self.stopping_part()
        self.on_signal = lambda entry, events: self.external.take(self.call, events)
        self.timers._expire = self.stopping.expire

    async def parked(self) -> Record:
        self.call: Call = self.running("job")
        self.external.park(self.call)
        await self.settle()
        return self.record

    @property
    def record(self) -> Record:
        return self.store.record(self.call)

    async def write(self, kind: Any, data: dict[str, Any], *, told: bool = True) -> None:
        """Another process writes into the call; `told`: this one reads it."""
        assert await self.signals.append(self.store.of(self.call), kind, data) is None
        if told:
            await self.signals.append_empty(self.call.entry)
            await self.settle()

    async def step(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.settle()


async def test_it_waits_without_a_slot_and_takes_the_result() -> None:
    parts = Parts()
    record = await parts.parked()
    assert (record.state, record.waiting_for) == (State.RUNNING, "external")
    assert parts.logged("release") == [parts.call]
    await parts.step(30)
    await parts.write("reported", {"output": {"n": 1}})
    assert (parts.record.state, parts.record.output) == (State.COMPLETED, {"n": 1})
    assert parts.record.stages["execute"].duration == pytest.approx(30, abs=1)


async def test_silence_and_time_end_it() -> None:
    parts = Parts()
    await parts.parked()
    for _ in range(2):
        await parts.step(35)
        await parts.write("heartbeat", {})
    assert parts.record.state is State.RUNNING, "heartbeats hold off the idle limit"
    await parts.step(31)
    assert (parts.record.state, parts.record.metadata["phase"]) == (State.TIMEOUT, "attempt")
    other = Parts()
    await other.parked()
    await other.step(41)
    assert (other.record.state, other.record.metadata["phase"]) == (State.TIMEOUT, "idle")


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_a_result_that_was_on_record_first_is_the_outcome(how: str) -> None:
    """This process has not read it yet when the time is up, or when the caller cancels."""
    parts = Parts()
    await parts.parked()
    await parts.write("reported", {"output": "in time"}, told=False)
    if how == "timeout":
        await parts.step(101)
    else:
        parts.stopping.cancel(parts.call, "not needed")
        await parts.settle()
    assert (parts.record.state, parts.record.output) == (State.COMPLETED, "in time")
    assert sum(event.is_terminal for event in parts.record.events) == 1


async def test_a_failure_from_outside_is_the_tools() -> None:
    parts = Parts()
    await parts.parked()
    await parts.write("reported", {"error": {"code": "tool_error", "message": "no", "type": "Fire"}})
    assert (parts.record.error and parts.record.error.type, parts.call.is_blameless) == ("Fire", False)


async def test_output_makes_it_stream_and_a_report_of_progress_counts_as_life() -> None:
    parts = Parts()
    await parts.parked()
    await parts.write("output", {"content": "a", "offset": 0})
    assert (parts.record.state, parts.record.waiting_for) == (State.STREAMING, "external")
    await parts.write("output", {"content": "b", "offset": 1})
    await parts.write("reported", {"output": None})
    assert (parts.record.state, parts.record.output) == (State.COMPLETED, "ab")


async def test_a_closed_wait_is_ended_by_the_process_that_takes_it_over() -> None:
    parts = Parts()
    await parts.parked()
    await parts.write("note", {"text": "", "external_closed": "cancel"}, told=False)
    await parts.signals.append_empty(parts.call.entry)
    attempt_of(parts.call).wait = None
    parts.external.wait_again(parts.call, parts.record)
    await parts.settle()
    assert parts.record.state is State.CANCELLED
