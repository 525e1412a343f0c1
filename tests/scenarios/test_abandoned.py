"""A body that cannot be stopped is abandoned: the result reports it, its slot stays taken until it returns, and its
output is ignored."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import GRACE, assert_sound, make, types

from clicket import State, ToolContext, tool


def assert_timed_out(result: Any) -> None:
    assert result.state is State.TIMEOUT
    assert result.error.code == "timeout"
    assert result.metadata["phase"] == "attempt"


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_a_body_that_swallows_its_cancellation_is_abandoned_and_keeps_its_slot(store: str, how: str) -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    @tool(timeout=0.05 if how == "timeout" else 30)
    async def stubborn() -> str:
        started.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    @tool
    async def quick() -> str:
        return "quick"

    async with make([stubborn, quick], store, max_concurrency=1) as rt:
        handle = await rt.submit("stubborn")
        await started.wait()
        if how == "cancel":
            assert await handle.cancel()
        result = await handle.result()
        assert result.state is (State.TIMEOUT if how == "timeout" else State.CANCELLED)
        assert result.metadata["abandoned"] is True
        assert result.duration >= GRACE
        waiting = await rt.submit("quick")
        with pytest.raises(TimeoutError):  # the slot is taken until the body has returned
            await asyncio.wait_for(waiting.result(), 0.1)
        assert "late_result" not in types(await rt.get(handle.id))
        gate.set()
        assert (await waiting.result()).output == "quick"

        async def late() -> Any:
            return [e for e in (await rt.get(handle.id)).events if e.type == "late_result"]

        [event] = await eventually(late)
        assert event.data == {"output": "late"}
        record = await rt.get(handle.id)
        assert record.state is result.state
        assert record.output is None
        assert_sound(record)
        replayed = [e async for e in (await rt.handle(handle.id)).events()]
        assert replayed == record.events
        assert (await (await rt.handle(handle.id)).result()) == result


async def test_a_body_that_swallows_its_cancellation_and_fails_leaves_the_failure_on_record(store: str) -> None:
    @tool(timeout=0.05)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("while cleaning up") from None
        return ""

    async with make([stubborn], store) as rt:
        result = await rt.call("stubborn")
        record = await rt.get(result.call_id)
    assert_timed_out(result)
    [late] = [e for e in record.events if e.type == "late_result"]
    assert late.data["error"]["message"] == "while cleaning up"
    assert_sound(record)


@pytest.mark.parametrize("value", ["late", None])
async def test_a_thread_tool_ends_on_time_is_abandoned_and_keeps_its_slot(store: str, value: Any) -> None:
    gate = threading.Event()

    @tool(timeout=0.1)
    def stuck() -> Any:
        gate.wait(2 * PATIENCE)
        return value

    @tool
    def quick() -> str:
        return "quick"

    try:
        async with make([stuck, quick], store, worker_threads=1) as rt:
            started = time.monotonic()
            result = await rt.call("stuck")
            took = time.monotonic() - started
            assert_timed_out(result)
            assert 0.1 <= took < PATIENCE
            assert result.metadata["abandoned"] is True
            waiting = await rt.submit("quick")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting.result(), 0.1)
            gate.set()
            assert (await waiting.result()).output == "quick"

            async def late() -> Any:
                return [e.data for e in (await rt.get(result.call_id)).events if e.type == "late_result"]

            assert await eventually(late) == [{"output": value}]
            assert_sound(await rt.get(result.call_id))
    finally:
        gate.set()


async def test_a_thread_that_ignores_a_cancel_is_abandoned_after_the_grace(store: str) -> None:
    gate, started = threading.Event(), threading.Event()

    @tool
    def stuck() -> None:
        started.set()
        gate.wait(2 * PATIENCE)
        raise ValueError("too late")

    try:
        async with make([stuck], store) as rt:
            handle = await rt.submit("stuck")
            await eventually(started.is_set)
            asked = time.monotonic()
            assert await handle.cancel()
            took = time.monotonic() - asked
            result = await handle.result()
            assert GRACE <= took < PATIENCE
            assert result.state is State.CANCELLED
            assert result.metadata["abandoned"] is True
            gate.set()

            async def late() -> Any:
                return [e.data for e in (await rt.get(handle.id)).events if e.type == "late_result"]

            [data] = await eventually(late)
            assert data["error"]["type"] == "ValueError"
    finally:
        gate.set()


async def test_an_abandoned_body_says_nothing_more(store: str) -> None:
    gate = threading.Event()

    @tool(timeout=0.05)
    def chatty(ctx: ToolContext) -> None:
        ctx.emit("before")
        gate.wait(2 * PATIENCE)
        ctx.emit("after")
        ctx.progress(1, 2)
        ctx.heartbeat()
        raise ValueError("end")

    try:
        async with make([chatty], store) as rt:
            result = await rt.call("chatty")
            gate.set()

            async def late() -> bool:
                return "late_result" in types(await rt.get(result.call_id))

            await eventually(late)
            record = await rt.get(result.call_id)
        assert [e.data["content"] for e in record.events if e.type == "output"] == ["before"]
        assert_sound(record)
    finally:
        gate.set()


async def test_closing_does_not_wait_for_a_stuck_thread(store: str) -> None:
    gate = threading.Event()

    @tool(timeout=0.05)
    def stuck() -> None:
        gate.wait(2 * PATIENCE)

    try:
        started = time.monotonic()
        async with make([stuck], store) as rt:
            await rt.call("stuck")
        assert time.monotonic() - started < PATIENCE
    finally:
        gate.set()
