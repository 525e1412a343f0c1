"""Small Protocols between the floors. Implementations live above, and are chosen in one place: `compose`."""

from __future__ import annotations

from clicket.ports.caller import Caller, Handle
from clicket.ports.clock import Clock, SystemClock, Timer, elapsed, mark, sleep
from clicket.ports.host import AgentHost, Taken, Watch
from clicket.ports.records import Audited, Paper, Records, Standing, Tally, Weight, moved
from clicket.ports.services import ChatModel, Embedder, SearchEngine, StreamingModel
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
    "AgentHost",
    "Append",
    "Audited",
    "CacheItem",
    "CacheStats",
    "CacheUse",
    "Caller",
    "ChatModel",
    "Clock",
    "Done",
    "Duplicate",
    "Embedder",
    "Found",
    "Handle",
    "Hear",
    "Keep",
    "Owner",
    "Paper",
    "Presence",
    "Query",
    "Records",
    "SearchEngine",
    "Stale",
    "Standing",
    "Store",
    "Stored",
    "StreamingModel",
    "Sweep",
    "SystemClock",
    "Taken",
    "Tally",
    "Timer",
    "Unstorable",
    "Watch",
    "Weight",
    "elapsed",
    "mark",
    "moved",
    "sleep",
]
