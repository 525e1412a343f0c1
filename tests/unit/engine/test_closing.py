"""Closing: no new calls, running calls finish or are stopped within a limit, waiting ones are handed back, every waiter
gets an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.drive.closing import Closing
from clicket.engine.executors import ProcessPool
from clicket.engine.executors.stopping import attempt_of, set_stopper
from clicket.engine.lifecycle.ending import result_from
from clicket.engine.lifecycle.runner import Runner
from clicket.engine.local.background import Background
from clicket.engine.local.tasks import Tasks
from clicket.engine.records.stored_calls import Closed
from clicket.kernel import State
from clicket.system.bridge import ThreadPool


@tool
async def echo() -> str:
    return "echo"


class Parts(Lower):
    def __init__(self, *, shares: bool = True, grace: float = 0.05) -> None:
        super().__init__(echo)
        self.tasks = Tasks()
        self.order: list[str] = []
        close = self.store.close

        async def close_store() -> None:
            assert self.phase.closing
            assert not self.phase.closed, "pending writes can still be made"
            assert not self.journal.closed
            self.order.append("store")
            await close()

        async def close_processes() -> None:
            self.order.append("processes")

        async def close_runner() -> None:
            self.order.append("runner")

        self.store.close = close_store  # type: ignore[method-assign]
        runner: Any = Recorder(Runner, close=close_runner)
        processes: Any = Recorder(ProcessPool, close=close_processes)
        workers: Any = (Recorder(ThreadPool), Recorder(ThreadPool), Recorder(ThreadPool))
        background: Any = Recorder(Background, stop=lambda: self.order.append("chores"))
        core = self.with_core(shares=shares, limits=msgspec.structs.replace(self.limits, cancel_grace=grace))
        self.closing = Closing(
            core, self.ending, self.stopping_part(), runner, processes, workers, self.tasks, background
        )


async def test_an_idle_runtime_closes_its_parts_in_order() -> None:
    parts = Parts()
    await parts.closing.close(patience=10.0)
    assert parts.order == ["processes", "runner", "chores", "store"], "a chore would find the store closed"
    assert (parts.phase.closed, parts.journal.closed) == (True, True)


async def test_a_running_call_gets_time_to_finish() -> None:
    parts = Parts()
    call = parts.running("echo")
    closing = asyncio.ensure_future(parts.closing.close(patience=30.0))
    await parts.clock.settle()
    assert call.stopping is None
    parts.finish(call)
    await closing
    assert call.result is not None
    assert call.result.state is State.COMPLETED


async def test_a_call_that_does_not_finish_in_time_is_stopped() -> None:
    parts = Parts()
    call = parts.running("echo")
    set_stopper(attempt_of(call), lambda: parts.finish(call, "in a hurry"))
    await parts.closing.close(patience=0.0)
    assert (call.stopping, call.cancel_reason) == ("shutdown", "the runtime was closed")
    assert call.result is not None


async def test_a_waiting_call_goes_back_to_the_store_at_once_and_its_waiters_hear() -> None:
    parts = Parts()
    call = parts.queued("echo")
    waiter = asyncio.ensure_future(parts.ending.outcome(call))
    await parts.clock.settle()
    await parts.closing.close(patience=30.0)
    with pytest.raises(Closed, match="waits for the next one"):
        await waiter
    assert (parts.store.is_owned(call), parts.store.record(call).state) == (False, State.PENDING)
    assert (parts.limiter.queued, list(parts.live)) == (0, [])


async def test_where_nothing_outlives_the_runtime_a_waiting_call_is_cancelled() -> None:
    parts = Parts(shares=False)
    call = parts.queued("echo")
    await parts.closing.close(patience=30.0)
    assert call.result is not None
    assert call.result.state is State.CANCELLED


async def test_a_store_that_takes_nothing_back_does_not_keep_the_runtime_open() -> None:
    parts = Parts()
    call = parts.queued("echo")
    parts.store.shut()
    await parts.closing.close(patience=0.0)
    assert call.failure is not None


async def test_a_call_whose_outcome_cannot_be_stored_is_dismissed_with_that_reason() -> None:
    parts = Parts()
    call = parts.running("echo")
    parts.store.holding = True
    parts.finish(call)
    waiter = asyncio.ensure_future(parts.ending.outcome(call))
    await parts.clock.settle()
    call.result = result_from(call)  # so that the test does not wait for the real clock
    await parts.closing.close(patience=0.0)
    with pytest.raises(Closed, match="before the outcome of call a could be stored"):
        await waiter


async def test_a_part_that_cannot_be_closed_does_not_keep_the_others_open(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts()

    async def broken() -> None:
        raise RuntimeError("broken")

    async def feature() -> None:
        parts.order.append("feature")

    (registered,) = parts.registry
    registered.close = broken  # type: ignore[method-assign]
    parts.closing.on_close += [broken, feature]
    await parts.closing.close(patience=0.0)
    assert parts.order == ["feature", "processes", "runner", "chores", "store"]
    assert "tool echo could not be closed" in caplog.text
    assert "a part of the runtime could not be closed" in caplog.text


async def test_no_task_outlives_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts()
    wait = asyncio.wait
    monkeypatch.setattr(asyncio, "wait", lambda tasks, timeout=None: wait(tasks, timeout=min(timeout, 0.01)))
    parts.tasks.spawn(asyncio.Event().wait())
    await parts.closing.close(patience=0.0)
    await parts.clock.settle()
    assert parts.tasks.running == set()
