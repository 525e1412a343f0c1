"""Sample tools for tests in which any tool would do. A tool whose own details matter is defined beside its test."""

from __future__ import annotations

import asyncio
from typing import Any

from clicket import tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def echo(text: str = "") -> str:
    return text


@tool(name="echo")
async def echo_value(value: Any = None) -> Any:
    """Return the argument, whatever it is."""
    return value


@tool(failure_threshold=100)
async def breaks() -> None:
    """Fails, without opening the breaker."""
    raise ValueError("no")


@tool(timeout=None)
async def forever() -> None:
    """Ends only when it is cancelled."""
    await asyncio.Event().wait()
