"""Tools of the servers in these tests, also of those in their own process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.scenarios.server_tools import base_tool, waiter

from clicket import ToolContext, tool
from clicket.engine.executors.sink import questions
from clicket.tools.question import InputQuestion

__all__ = ["FORM", "TOOLS", "measure", "order", "pay"]

FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


@tool
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool
async def order(ctx: ToolContext) -> list[Any]:
    """Asks a person in the middle."""
    asked = InputQuestion(key="q", source="the shop", message="Which size?", schema=FORM)
    answer = questions(ctx).ask(asked, None)
    return [answer.action, answer.content]


@tool
async def measure(ctx: ToolContext) -> list[Any]:
    """Asks a person twice."""
    asked = (InputQuestion(key=name, source="the shop", message=f"Which {name}?", schema=FORM) for name in ("a", "b"))
    return [questions(ctx).ask(each, None).content for each in asked]


@tool(idempotent=True)
async def patient(ctx: ToolContext, gate: str) -> str:
    """Waits until a file exists; after a crash it waits again."""
    ctx.emit("waiting")
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    return "done"


TOOLS = [pay, measure, patient, base_tool, waiter]
