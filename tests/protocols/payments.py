"""Tools of the servers in these tests, also of those in their own process."""

from __future__ import annotations

from tests.scenarios.server_tools import base_tool, waiter

from clicket import tool

__all__ = ["TOOLS", "pay"]


@tool
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


TOOLS = [pay, base_tool, waiter]
