"""Tools that report a cost from other lanes."""

from __future__ import annotations

from clicket import ToolContext, tool


@tool(name="thread", isolation="thread")
def thread(ctx: ToolContext) -> str:
    """Pay in a thread."""
    ctx.spend(usd=0.125)
    return "paid"


@tool(name="process", isolation="process")
def process(ctx: ToolContext) -> str:
    """Pay in a process."""
    ctx.spend(usd=0.125)
    return "paid"
