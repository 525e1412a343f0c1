"""Sample tools for the deployment files and for `make cluster`. Replace them by your own."""

from __future__ import annotations

import asyncio

from clicket import ToolContext, tool


@tool(read_only=True)
async def greet(name: str = "world") -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@tool(read_only=True, timeout=600)
async def count(ctx: ToolContext, to: int = 10, pause: float = 0.5) -> int:
    """Count slowly. It may be repeated, so another worker runs it again when its worker dies."""
    for number in range(1, to + 1):
        await asyncio.sleep(pause)
        ctx.progress(number, to, f"at {number}")
        ctx.emit(f"{number}\n")
    return to
