"""A call that ends elsewhere: the tool starts a job and hands out a token; the vendor streams and completes with it."""

from __future__ import annotations

import asyncio

from clicket import Runtime, ToolContext, tool
from clicket.errors import Conflict

jobs: asyncio.Queue[str] = asyncio.Queue()
"""Stands for a vendor's queue. It gets the token of each job."""


@tool(external=True, timeout=3600, idle_timeout=600)
async def render(video: str, ctx: ToolContext) -> None:
    """Renders a video, on a farm of another company."""
    pending = ctx.pending(token_for="render farm")
    await jobs.put(pending.token)


@tool(depends_on=["render"])
async def publish(video: str) -> str:
    """Publishes a video that is rendered."""
    return f"{video} is published"


async def farm(rt: Runtime) -> None:
    """In real life this is another program; it has the token and uses HTTP, or `clicket complete TOKEN`."""
    token = await jobs.get()
    await rt.report_progress(token, 1, 2, "half of it")
    await rt.emit(token, "frame 1, ")
    await rt.emit(token, "frame 2")
    await rt.complete(token)  # what was streamed is the output
    try:
        await rt.complete(token, "again")
    except Conflict as error:
        print(f"refused: {error}")


async def main() -> None:
    async with Runtime(tools=[render, publish], store="memory://") as rt:
        handle = await rt.submit("render", {"video": "ferry"}, thread="t1")
        vendor = asyncio.ensure_future(farm(rt))
        async for event in handle.events():
            print(event.seq, event.type, event.state, event.data.get("content", ""))
        result = await handle.result()
        await vendor
        print(f"{result.state}: {result.output}")
        assert (result.output, result.attempts) == ("frame 1, frame 2", 1)
        print((await rt.call("publish", {"video": "ferry"}, thread="t1")).output)


asyncio.run(main())
