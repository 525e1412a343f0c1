"""`clicket demo`: the tour."""

from __future__ import annotations

from clicket.cli.context import Context

__all__ = ["demo"]


async def demo(context: Context) -> None:
    """Take a tour in half a minute: calls that succeed and fail, recovery after kill -9, and an agent that survives it. Needs nothing."""
    from clicket.cli.demo.tour import tour

    await tour(context)
