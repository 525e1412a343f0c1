"""Small Protocols between the floors. Implementations live above, and are chosen in one place: `compose`."""

from __future__ import annotations

from clicket.ports.caller import Caller, Handle
from clicket.ports.clock import Clock, SystemClock, Timer, elapsed, mark, sleep
from clicket.ports.store import (
    Append,
    CacheItem,
    CacheStats,
    CacheUse,
    Done,
    Duplicate,
    Found,
    Hear,
    Keep,
    Owner,
    Presence,
    Query,
    Stale,
    Store,
    Stored,
    Sweep,
    Unstorable,
)

__all__ = [
    "Append",
    "CacheItem",
    "CacheStats",
    "CacheUse",
    "Caller",
    "Clock",
    "Done",
    "Duplicate",
    "Found",
    "Handle",
    "Hear",
    "Keep",
    "Owner",
    "Presence",
    "Query",
    "Stale",
    "Store",
    "Stored",
    "Sweep",
    "SystemClock",
    "Timer",
    "Unstorable",
    "elapsed",
    "mark",
    "sleep",
]
