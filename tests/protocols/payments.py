"""Tools of the servers in these tests, also of those in their own process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.scenarios.server_tools import base_tool, waiter

from clicket import ToolContext, tool

__all__ = ["TOOLS", "pay"]


@tool
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool(idempotent=True)
async def patient(ctx: ToolContext, gate: str) -> str:
    """Waits until a file exists; after a crash it waits again."""
    ctx.emit("waiting")
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    return "done"


TOOLS = [pay, patient, base_tool, waiter]
