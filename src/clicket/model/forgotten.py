"""What `forget` has removed of a caller."""

from __future__ import annotations

import msgspec

__all__ = ["Forgotten"]


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what this run removed; a run after a kill counts what was left."""

    caller: str
    threads: int = 0
    calls: int = 0
    """Also the turns of agents."""
    facts: int = 0
    """What agents remembered."""
    artifacts: int = 0
    """Files that the caller could read. Bytes that others do not have, too, go with the next sweep that finds them an hour old."""
    messages: int = 0
    """That waited in queues."""
    remaining: dict[str, int] = {}
    """What the caller still has: `credentials`, `grants`, `schedules`. They have commands of their own."""
