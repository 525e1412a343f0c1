"""Sample tools for tests in which any tool would do. A tool whose own details matter is defined beside its test."""

from __future__ import annotations

import asyncio

from clicket import tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def echo(text: str = "") -> str:
    return text


@tool(timeout=None)
async def forever() -> None:
    """Ends only when it is cancelled."""
    await asyncio.Event().wait()
