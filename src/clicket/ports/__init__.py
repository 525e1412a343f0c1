"""Small Protocols between the layers. Implementations are in higher layers; `compose` chooses them."""

from __future__ import annotations

from clicket.ports.caller import Caller, Handle
from clicket.ports.clock import Clock, SystemClock, Timer, elapsed, mark, sleep
from clicket.ports.health import health_after
from clicket.ports.host import AgentHost, Taken, Watch
from clicket.ports.records import SHARED_PLACE, Audited, HealthEffect, OutcomeStats, Records, StoredDocument, ToolHealth
from clicket.ports.services import ChatModel, Embedder, SearchEngine, StreamingModel
from clicket.ports.store import (
    Append,
    CacheItem,
    CacheStats,
    CacheUse,
    CallIdentity,
    CallRow,
    Done,
    Duplicate,
    Found,
    Keep,
    OnHint,
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
    "SHARED_PLACE",
    "AgentHost",
    "Append",
    "Audited",
    "CacheItem",
    "CacheStats",
    "CacheUse",
    "CallIdentity",
    "CallRow",
    "Caller",
    "ChatModel",
    "Clock",
    "Done",
    "Duplicate",
    "Embedder",
    "Found",
    "Handle",
    "HealthEffect",
    "Keep",
    "OnHint",
    "OutcomeStats",
    "Owner",
    "Presence",
    "Query",
    "Records",
    "SearchEngine",
    "Stale",
    "Store",
    "Stored",
    "StoredDocument",
    "StreamingModel",
    "Sweep",
    "SystemClock",
    "Taken",
    "Timer",
    "ToolHealth",
    "Unstorable",
    "Watch",
    "elapsed",
    "health_after",
    "mark",
    "sleep",
]
