"""Timeouts and cancellation stop work, end a call once, and report abandoned bodies."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.cache_kit import stepped
from tests.scenarios.kit import assert_sound, make, states, types

from clicket import RetryableError, State, ToolContext, tool
from clicket.testing import StepClock


def assert_timeout(result: Any, phase: str) -> None:
    assert result.state is State.TIMEOUT
    assert result.error.code == "timeout"
    assert result.metadata["phase"] == phase
    assert result.error.message


# Attempts ------------------------------------------------------------------------------------------------------------


async def test_an_async_body_is_stopped_when_its_time_is_up(store: str) -> None:
    stopped = []

    @tool(timeout=0.1)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    async with make([slow], store) as rt:
        started = time.monotonic()
        result = await rt.call("slow")
        took = time.monotonic() - started
        record = await rt.get(result.call_id)
    assert_timeout(result, "attempt")
    assert stopped == [True]
    assert 0.1 <= took < PATIENCE
    assert result.attempts == 1
    assert "abandoned" not in result.metadata
    assert record.ended_at is not None
    assert record.attempts[0].outcome == "timeout"
    assert_sound(record)


async def test_the_calls_own_timeout_wins_over_the_tools(store: str) -> None:
    @tool(timeout=60)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with make([slow], store) as rt:
        assert_timeout(await rt.call("slow", timeout=0.05), "attempt")


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_tools_own_timeout_error_is_a_tool_error(store: str, kind: str) -> None:
    @tool
    async def by_loop() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    @tool
    def by_thread() -> None:
        raise TimeoutError("the socket's")

    async with make([by_loop, by_thread], store) as rt:
        result = await rt.call("by_loop" if kind == "async" else "by_thread")
    assert result.state is State.FAILED
    assert result.error is not None
    assert (result.error.code, result.error.type) == ("tool_error", "TimeoutError")


@pytest.mark.parametrize("option", ["idempotent", "read_only"])
async def test_a_timed_out_tool_that_may_be_repeated_is_tried_again(store: str, option: str) -> None:
    seen = []
    clock, hangs = StepClock(), asyncio.Event()

    @tool(timeout=5, retry_delay=0, **{option: True})
    async def slow_at_first(ctx: ToolContext) -> str:
        seen.append((ctx.attempt, ctx.idempotency_key))
        if len(seen) == 1:
            hangs.set()
            await asyncio.Event().wait()
        return "done"

    async with stepped([slow_at_first], store, clock) as rt:
        running = asyncio.create_task(rt.call("slow_at_first"))
        await hangs.wait()
        await clock.run(5)
        result = await running
        record = await rt.get(result.call_id)
    assert result.output == "done"
    assert [attempt for attempt, _ in seen] == [1, 2]
    assert len({key for _, key in seen}) == 1
    assert states(record.events) == ["pending", "initializing", "running", "retrying", "running", "completed"]
    assert_sound(record)


async def test_a_timed_out_tool_with_no_retries_left_ends_as_timeout(store: str) -> None:
    clock, hangs = StepClock(), asyncio.Semaphore(0)

    @tool(timeout=5, retry_delay=0, max_retries=2, idempotent=True)
    async def slow() -> None:
        hangs.release()
        await asyncio.Event().wait()

    async with stepped([slow], store, clock) as rt:
        running = asyncio.create_task(rt.call("slow"))
        for _ in range(3):
            await hangs.acquire()
            await clock.run(5)
        result = await running
    assert_timeout(result, "attempt")
    assert result.attempts == 3
    assert hangs.locked(), "no fourth attempt"


async def test_idle_timeout_ends_a_silent_attempt_and_signs_of_life_hold_it_off(store: str) -> None:
    clock, beats = StepClock(), asyncio.Semaphore(0)
    steps = {how: asyncio.Semaphore(0) for how in ("heartbeat", "progress", "emit")}

    @tool(idle_timeout=5, timeout=100)
    async def silent() -> None:
        await asyncio.Event().wait()

    @tool(idle_timeout=5, timeout=100)
    async def lively(ctx: ToolContext, how: str) -> str:
        for i in range(9):
            {"heartbeat": ctx.heartbeat, "progress": lambda i=i: ctx.progress(i), "emit": lambda: ctx.emit("x")}[how]()
            beats.release()
            await steps[how].acquire()
        return how

    async with stepped([silent, lively], store, clock) as rt:
        running = asyncio.create_task(rt.call_many([("silent", {}), *(("lively", {"how": how}) for how in steps)]))
        for _ in range(9):
            for _ in steps:
                await beats.acquire()
            await clock.run(4)
            for step in steps.values():
                step.release()
        results = await running
    assert_timeout(results[0], "idle")
    assert [r.output for r in results[1:]] == ["heartbeat", "progress", "emit"]


async def test_a_thread_that_is_alive_is_not_idle(store: str) -> None:
    clock, beats, steps = StepClock(), threading.Semaphore(0), threading.Semaphore(0)

    @tool(idle_timeout=5, timeout=100)
    def lively(ctx: ToolContext) -> str:
        for _ in range(9):
            ctx.heartbeat()
            beats.release()
            steps.acquire()
        return "alive"

    async with stepped([lively], store, clock) as rt:
        running = asyncio.create_task(rt.call("lively"))
        for _ in range(9):
            await asyncio.to_thread(beats.acquire)
            await clock.run(4)
            steps.release()
        assert (await running).output == "alive"


# Whole-call deadlines ------------------------------------------------------------------------------------------------


async def test_a_deadline_ends_a_call_that_is_queued(store: str) -> None:
    gate = asyncio.Event()
    ran = []

    @tool
    async def hold() -> None:
        await gate.wait()

    @tool
    async def quick() -> None:
        ran.append(1)

    async with make([hold, quick], store, max_concurrency=1) as rt:
        first = await rt.submit("hold")
        result = await rt.call("quick", deadline=0.05)
        assert_timeout(result, "deadline")
        assert result.attempts == 0
        gate.set()
        assert (await first.result()).success
        record = await rt.get(result.call_id)
    assert not ran
    assert states(record.events) == ["pending", "timeout"]
    assert_sound(record)


async def test_a_deadline_ends_a_call_that_runs(store: str) -> None:
    @tool(idempotent=True)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with make([slow], store) as rt:
        result = await rt.call("slow", deadline=0.05)
    assert_timeout(result, "deadline")
    assert result.attempts == 1  # a deadline applies to the call, not the attempt: no second try


async def test_a_deadline_ends_a_call_that_backs_off(store: str) -> None:
    @tool(retry_delay=60)
    async def flaky() -> None:
        raise RetryableError("x")

    async with make([flaky], store) as rt:
        result = await rt.call("flaky", deadline=0.05)
        record = await rt.get(result.call_id)
    assert_timeout(result, "deadline")
    assert states(record.events)[-2:] == ["retrying", "timeout"]
    assert_sound(record)


async def test_queue_timeout(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def hold() -> None:
        await gate.wait()

    async with make([hold], store, max_concurrency=1, queue_timeout=0.05) as rt:
        first = await rt.submit("hold")
        assert_timeout(await rt.call("hold"), "queue")
        gate.set()
        assert (await first.result()).success


async def test_the_wait_in_the_queue_does_not_count_against_the_attempt(store: str) -> None:
    clock, gate = StepClock(), asyncio.Event()
    lefts = []

    @tool
    async def hold() -> None:
        await gate.wait()

    @tool(timeout=5)
    async def quick(ctx: ToolContext) -> str:
        lefts.append(ctx.time_left)
        return "in time"

    async with stepped([hold, quick], store, clock, max_concurrency=1) as rt:
        first = await rt.submit("hold")
        second = await rt.submit("quick")
        await clock.run(6)  # longer than the whole timeout of the waiting call
        assert await rt.state(second.id) is State.PENDING
        gate.set()
        assert (await second.result()).output == "in time"
        await first.result()
    assert lefts == [5]


# Cancel, in every state ----------------------------------------------------------------------------------------------


async def test_cancel_while_queued(store: str) -> None:
    gate = asyncio.Event()
    ran = []

    @tool
    async def hold() -> None:
        await gate.wait()

    @tool
    async def never() -> None:
        ran.append(1)

    async with make([hold, never], store, max_concurrency=1) as rt:
        first = await rt.submit("hold")
        queued = await rt.submit("never")
        assert await rt.state(queued.id) is State.PENDING
        assert await rt.cancel(queued.id, reason="changed my mind")
        result = await queued.result()
        gate.set()
        await first.result()
        record = await rt.get(queued.id)
        assert not await rt.cancel(queued.id)
    assert result.state is State.CANCELLED
    assert result.error is not None
    assert result.error.code == "cancelled"
    assert "changed my mind" in result.error.message
    assert not ran
    assert states(record.events) == ["pending", "cancelled"]
    assert "cancel_requested" in types(record)
    assert record.ended_at is not None
    assert_sound(record)


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancel_while_running_or_streaming_stops_the_body(store: str, streaming: bool) -> None:
    started = asyncio.Event()
    stopped = []

    @tool
    async def endless(ctx: ToolContext) -> None:
        try:
            if streaming:
                ctx.emit("x")
                await ctx.drain()
            started.set()
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    async with make([endless], store) as rt:
        handle = await rt.submit("endless")
        await started.wait()
        assert await rt.cancel(handle.id)
        assert stopped == [True]  # the work has stopped when cancel returns
        result = await handle.result()
        record = await rt.get(handle.id)
    assert result.state is State.CANCELLED
    assert states(record.events)[-2:] == ["streaming" if streaming else "running", "cancelled"]
    assert_sound(record)


async def test_cancel_right_after_submit(store: str) -> None:
    ran = []

    @tool
    async def quick() -> str:
        ran.append(1)
        await asyncio.sleep(0)
        return "done"

    async with make([quick], store) as rt:
        for _ in range(50):
            handle = await rt.submit("quick")
            took_effect = await handle.cancel()
            result = await handle.result()
            record = await rt.get(handle.id)
            assert_sound(record)
            assert result.state is record.state
            assert took_effect == (result.state is State.CANCELLED)


async def test_cancel_of_an_ended_call_changes_nothing(store: str) -> None:
    @tool
    async def quick() -> int:
        return 1

    async with make([quick], store) as rt:
        result = await rt.call("quick", id="q")
        before = await rt.get("q")
        assert not await rt.cancel("q")
        assert await rt.get("q") == before
        assert result.success


async def test_a_cancelled_caller_cancels_its_call(store: str) -> None:
    started, stopped = asyncio.Event(), []

    @tool
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    async with make([endless], store) as rt:
        task = asyncio.create_task(rt.call("endless", id="e"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped == [True]
        record = await rt.get("e")
    assert record.state is State.CANCELLED
    assert_sound(record)


async def test_a_waiter_that_leaves_does_not_affect_a_submitted_call(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        await gate.wait()
        return "done"

    async with make([wait], store) as rt:
        handle = await rt.submit("wait")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle.result(), 0.01)
        gate.set()
        assert (await handle.result()).output == "done"


async def test_a_sync_tool_sees_the_cancel_and_returns(store: str) -> None:
    started = threading.Event()

    @tool
    def patient(ctx: ToolContext) -> str:
        started.set()
        while not ctx.cancelled:
            time.sleep(0.002)
        return "cleaned up"

    async with make([patient], store, cancel_grace=5) as rt:
        handle = await rt.submit("patient")
        await eventually(started.is_set)
        assert await handle.cancel()
        result = await handle.result()
        record = await rt.get(handle.id)
    assert result.state is State.CANCELLED
    assert "abandoned" not in result.metadata
    assert [e.data for e in record.events if e.type == "late_result"] == [{"output": "cleaned up"}]
    assert_sound(record)
