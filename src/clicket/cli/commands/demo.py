"""`clicket demo`: the tour."""

from __future__ import annotations

from clicket.cli.session import Session

__all__ = ["demo"]


async def demo(session: Session) -> None:
    """A tour in under a minute: good calls, bad ones, a kill -9 with its recovery, and an agent that survives one. Needs nothing."""
    from clicket.cli.demo import tour

    await tour(session)
