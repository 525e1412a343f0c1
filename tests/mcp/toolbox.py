"""Tools for servers that tests start as processes: `clicket mcp --tools tests.mcp.toolbox`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from clicket import ToolContext, tool
from clicket.mcp import image, reply


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool(idempotent=True)
async def facts() -> dict[str, Any]:
    """Who serves."""
    print("this must not be mistaken for a message")
    return {"pid": os.getpid(), "secret": os.environ.get("TOOLBOX_SECRET", "")}


@tool(timeout=60)
async def steps(count: int, ctx: ToolContext) -> str:
    """Works in steps."""
    for step in range(1, count + 1):
        ctx.progress(step, count, f"step {step}")
        await ctx.drain()
    return "done"


@tool(failure_threshold=1_000)
async def fails() -> None:
    """Fails."""
    raise ValueError("the far end is out of order")


@tool(tags={"mcp"})
async def picture() -> Any:
    """A picture."""
    return reply("look:", image(b"\x89PNG"))


@tool(timeout=None)
async def hang(file: str, ctx: ToolContext) -> None:
    """Hangs, and leaves word of its start and its end in a file."""
    with Path(file).open("a") as log:
        log.write("started\n")
    ctx.progress(1)
    try:
        await asyncio.Event().wait()
    finally:
        with Path(file).open("a") as log:
            log.write("ended\n")


@tool(timeout=None, read_only=True)
async def hang_reading(file: str, ctx: ToolContext) -> str:
    """Hangs the first time, and answers the second."""
    with Path(file).open("a+") as log:
        log.seek(0)
        before = log.read()
        log.write(f"{os.getpid()}\n")
    if before:
        return "read"
    ctx.progress(1)
    await asyncio.Event().wait()
    return "never"
