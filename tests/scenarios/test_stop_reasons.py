"""A call between its cancellation and its end, and reasons that cannot be stored."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.tools import forever
from tests.kit.waiting import PATIENCE

from clicket import Policy, Runtime, Settings, State, ToolContext, tool
from clicket.errors import ClicketError


def settings(store: str) -> Settings:
    return Settings(store=store, cancel_grace=2.0, close_timeout=0.2)


async def test_a_cancel_while_a_timed_out_attempt_winds_down_is_not_lost(store: str) -> None:
    winding, release, runs = asyncio.Event(), asyncio.Event(), []

    @tool(timeout=0.05, idempotent=True, retry_delay=0.01)
    async def slow_to_stop() -> None:
        runs.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            winding.set()
            await release.wait()

    async with Runtime([slow_to_stop], settings=settings(store)) as rt:
        handle = await rt.submit("slow_to_stop")
        await winding.wait()
        cancelling = asyncio.create_task(handle.cancel("enough"))
        await asyncio.sleep(0)
        release.set()
        assert await cancelling
        result = await handle.result()
    assert (result.state, len(runs)) == (State.CANCELLED, 1)


async def test_a_callers_timeout_while_an_attempt_winds_down_is_not_lost() -> None:
    winding, release, runs = asyncio.Event(), asyncio.Event(), []

    @tool(timeout=0.05, idempotent=True, retry_delay=0.01)
    async def slow_to_stop() -> None:
        runs.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            winding.set()
            await release.wait()

    async with Runtime([slow_to_stop], settings=settings("memory://")) as rt:
        task = asyncio.create_task(rt.call("slow_to_stop"))
        await winding.wait()
        task.cancel()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(runs) == 1


async def test_text_that_is_no_utf8_does_not_fail_the_call(store: str) -> None:
    @tool
    async def odd(ctx: ToolContext) -> str:
        ctx.progress(1, 2, "file \udcff")
        ctx.note("\ud800")
        return "done"

    async with Runtime([odd, forever], settings=settings(store)) as rt:
        assert (await rt.call("odd")).output == "done"
        handle = await rt.submit("forever")
        assert await handle.cancel("because \ud800")
        assert (await handle.result()).state is State.CANCELLED


async def test_progress_takes_numbers_of_other_libraries(store: str) -> None:
    class Strange(float):
        """Like numpy's scalars."""

    @tool
    async def count(ctx: ToolContext) -> str:
        ctx.progress(Strange(1.0), Strange(4.0))
        return "done"

    async with Runtime([count], settings=settings(store)) as rt:
        result = await rt.call("count", id="x")
        record = await rt.get("x")
    assert result.success
    assert [e.data["percentage"] for e in record.events if e.type == "progress"] == [25.0, 100]


async def test_a_follower_of_a_call_that_is_handed_back_gets_an_error(sqlite: str) -> None:
    @tool
    async def pay() -> None:
        """Nothing."""

    rt = await Runtime([pay], policy=Policy(ask=["pay"]), settings=settings(sqlite)).open()
    handle = await rt.submit("pay")
    seen: list[str] = []

    async def follow() -> None:
        async for event in handle.events():
            seen.append(event.type)  # noqa: PERF401  # others look at it meanwhile

    following = asyncio.create_task(follow())
    while "approval_requested" not in seen:
        await asyncio.sleep(0)
    await rt.close()
    with pytest.raises(ClicketError, match="closed"):
        await asyncio.wait_for(following, PATIENCE)
