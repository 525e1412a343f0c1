"""A body in its caller's task: what the caller sees, and how a body that does not stop is abandoned."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.tools import forever
from tests.kit.waiting import PATIENCE

from clicket import Runtime, Settings, State, tool


def settings() -> Settings:
    return Settings(store="memory://", cancel_grace=0.05)


async def test_a_body_runs_in_the_task_that_called_it() -> None:
    seen: list[Any] = []

    @tool
    async def who() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    async with Runtime([who], settings=settings()) as rt:
        await rt.call("who")
        assert seen == [asyncio.current_task()] * 2
        await (await rt.submit("who")).result()
        assert asyncio.current_task() not in seen[2:]


async def test_a_stubborn_body_does_not_keep_its_caller() -> None:
    release = asyncio.Event()

    @tool(timeout=0.05, max_retries=0)
    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async with Runtime([stubborn], settings=settings()) as rt:
        result = await asyncio.wait_for(rt.call("stubborn", id="x"), PATIENCE)
        assert (result.state, result.metadata) == (State.TIMEOUT, {"phase": "attempt", "abandoned": True})
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0, "our cancellation does not stay on the caller's task"
        assert rt.engine.limiter.used, "the slot stays taken while the body runs"
        release.set()
        while rt.engine.limiter.used:
            await asyncio.sleep(0)
        record = await rt.get("x")
        assert [e.data for e in record.events if e.type == "late_result"] == [{"output": "at last"}]
        assert record.state is State.TIMEOUT


async def test_a_stubborn_body_that_fails_late_is_on_record() -> None:
    release = asyncio.Event()

    @tool(timeout=0.02, max_retries=0)
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await release.wait()
        raise ValueError("gave up")

    async with Runtime([stubborn], settings=settings()) as rt:
        result = await rt.call("stubborn", id="x")
        assert result.metadata["abandoned"]
        release.set()
        while rt.engine.limiter.used:
            await asyncio.sleep(0)
        late = [e.data for e in (await rt.get("x")).events if e.type == "late_result"]
    assert late[0]["error"]["message"] == "gave up"


async def test_a_clean_up_that_takes_longer_than_the_grace_is_not_disturbed() -> None:
    release, cleaned = asyncio.Event(), []

    @tool(timeout=0.02, max_retries=0)
    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()
            cleaned.append(True)

    async with Runtime([tidy], settings=settings()) as rt:
        result = await rt.call("tidy")
        assert result.metadata["abandoned"]
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        release.set()
        while rt.engine.limiter.used:
            await asyncio.sleep(0)
    assert cleaned == [True]


async def test_a_body_that_waits_for_a_task_that_will_not_stop_is_let_go() -> None:
    release = asyncio.Event()

    async def deaf() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    @tool(timeout=0.02, max_retries=0)
    async def waits() -> None:
        await asyncio.create_task(deaf())

    async with Runtime([waits], settings=settings()) as rt:
        result = await asyncio.wait_for(rt.call("waits"), PATIENCE)
        assert result.metadata["abandoned"]
        release.set()
        while rt.engine.limiter.used:
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_the_callers_own_cancellation_is_not_swallowed() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Runtime([slow], settings=settings()) as rt:
        task = asyncio.create_task(rt.call("slow", id="x"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set(), "the body has stopped before its caller gets the result"
        record = await rt.get("x")
    assert record.state is State.CANCELLED
    assert record.error is not None
    assert "its caller was cancelled" in record.error.message


async def test_a_timeout_around_a_call_works_as_around_any_await() -> None:
    async with Runtime([forever], settings=settings()) as rt:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await rt.call("forever", id="x")
        assert await rt.state("x") is State.CANCELLED


async def test_calls_that_never_wait_let_others_run() -> None:
    @tool
    async def instant() -> int:
        return 1

    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with Runtime([instant], settings=settings()) as rt:
        task = asyncio.create_task(other())
        for _ in range(300):
            await rt.call("instant")
        task.cancel()
    assert turns >= 3


async def test_a_cancel_from_elsewhere_reaches_a_body_in_its_callers_task() -> None:
    started = asyncio.Event()

    @tool
    async def slow() -> None:
        started.set()
        await asyncio.Event().wait()

    async with Runtime([slow], settings=settings()) as rt:
        task = asyncio.create_task(rt.call("slow", id="x"))
        await started.wait()
        assert await rt.cancel("x", reason="enough")
        result = await task
    assert result.state is State.CANCELLED
    assert result.error is not None
    assert "enough" in result.error.message


async def test_an_awaitable_that_is_no_coroutine_is_awaited() -> None:
    class Answer:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return 42

    @tool
    async def outer() -> Any:
        return await Answer()

    async with Runtime([outer], settings=settings()) as rt:
        assert (await rt.call("outer")).output == 42
