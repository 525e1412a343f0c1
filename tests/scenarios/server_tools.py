"""Tools of seed 001's scenarios, and one that waits, for servers in their own process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from clicket import ToolContext, tool

__all__ = ["SEED", "TOOLS", "base_tool", "dependent_tool", "failing_tool", "waiter"]


@tool
async def base_tool(data: str = "") -> str:
    """Work on the data first."""
    return f"base({data})"


@tool(depends_on="base_tool")
async def dependent_tool(data: str = "") -> str:
    """Needs what base_tool did."""
    return f"dependent({data})"


@tool(failure_threshold=2, max_retries=0)
async def failing_tool(broken: str = "") -> str:
    """Fails while the file `broken` exists."""
    if broken and Path(broken).exists():
        raise RuntimeError("the disk is on fire")
    return "fine"


@tool
async def waiter(ctx: ToolContext, gate: str = "", seconds: float = 60.0) -> str:
    """Waits until a file exists."""
    ctx.emit("waiting")
    until = time.monotonic() + seconds
    while not (gate and Path(gate).exists()):
        if time.monotonic() > until:
            break
        await asyncio.sleep(0.02)
    return "done"


SEED = (base_tool, dependent_tool, failing_tool)
TOOLS = [*SEED, waiter]
