"""Timeouts and cancels stop the work. A sync body that must be stoppable runs in a child process, which can be killed.

The child imports this file to find tools with isolation="process", so the file needs its main guard.
"""

from __future__ import annotations

import asyncio
import os
import time

from clicket import Runtime, ToolContext, tool


@tool(timeout=0.2)
async def slow_async() -> str:
    """An async body is cancelled at its `await`."""
    try:
        await asyncio.sleep(60)
    finally:
        print("  slow_async: cleaning up")
    return "never"


@tool(timeout=0.5, isolation="process")
def stuck(ctx: ToolContext) -> str:
    """A thread could not be stopped here. A process can, with all its children."""
    ctx.note("stuck", pid=os.getpid())
    while True:
        time.sleep(60)


@tool
async def crawl(ctx: ToolContext) -> int:
    """A long crawl that is cancelled."""
    for page in range(1_000):
        await asyncio.sleep(0.02)
        ctx.progress(page, 1_000)
    return 1_000


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def main() -> None:
    async with Runtime(tools=[slow_async, stuck, crawl], store="memory://") as rt:
        print((await rt.call("slow_async")).error)

        result = await rt.call("stuck")
        record = await rt.get(result.call_id)
        pid = next(event.data["pid"] for event in record.events if event.type == "note")
        print(f"{result.state}: process {pid} is {'alive' if is_alive(pid) else 'gone'}")

        handle = await rt.submit("crawl")
        async for event in handle.events():
            if event.type == "progress" and event.data["step"] >= 5:
                break
        await rt.cancel(handle.id, reason="seen enough")
        print((await handle.result()).error)

        # The caller can set limits as well: `timeout` for each attempt, `deadline` for the whole call.
        print((await rt.call("crawl", deadline=0.1)).error)


if __name__ == "__main__":
    asyncio.run(main())
