"""Streaming output and progress. Both are events, and the store has each event before a reader sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from clicket import Runtime, ToolContext, tool


@tool
async def haiku() -> AsyncIterator[str]:
    """A poem, line by line. The values that an async generator yields are streamed."""
    for line in ("an old silent pond\n", "a frog jumps into the pond\n", "splash! silence again\n"):
        await asyncio.sleep(0.1)
        yield line


@tool
async def crawl(pages: int, ctx: ToolContext) -> dict[str, int]:
    """Visit pages. `ctx` is not part of the schema."""
    for page in range(1, pages + 1):
        await asyncio.sleep(0.05)
        ctx.progress(page, pages, f"page {page}")
        if page % 2 == 0:
            ctx.emit(f"page {page} has a link\n")
    return {"pages": pages}


async def main() -> None:
    async with Runtime(tools=[haiku, crawl], store="memory://") as rt:
        async for event in rt.stream("haiku"):
            if event.type == "output":
                print(f"  {event.seq}: {event.data['content']}", end="")

        handle = await rt.submit("crawl", {"pages": 6})
        async for event in handle.events():
            if event.type == "progress":
                left = event.data["estimated_time_remaining"]
                print(f"  {event.data['percentage']:.0f} %, {left} s left, {event.data['status']}")
            elif event.type == "output":
                print(f"  {event.data['content']}", end="")
        result = await handle.result()
        print(result.state, result.output)

        # Events can be read again later, from the first one or from any number.
        replayed = [event.seq async for event in handle.events(after=5)]
        print("replayed from 6:", replayed[0], "to", replayed[-1])


if __name__ == "__main__":
    asyncio.run(main())
