"""Small Protocols between the layers. Implementations are in higher layers; `compose` chooses them.

- `store`: `Store`, where the journal is kept: appending, reading, owners and leases, claims, retention
- `records`: what a store keeps beside calls: tool health, stats, documents, the audit log
- `health`: how an outcome changes the health of its tool: the counters of the circuit breaker
- `query`: which calls to list
- `bus`: messages between processes that share a store: lossy, they save time alone
- `queue`: how many calls wait for a process, and how many may start under a rate
- `threads`: which threads there are, with counts of their calls
- `caller`: `Caller` and `Handle`, the interface of every way to call the runtime
- `clock`: time, which tests can step
- `model_trace`: observing requests to models; imported by itself
- `services`: search engines, chat models, embeddings
- `model_chain`: a model that asks several others, one after the other
- `host`: what an agent needs of its runtime
- `spending`: what an agent needs to count what it spends; imported by itself, since commands that only read need none of it
"""

from __future__ import annotations

from clicket.model.ports.bus import Bus, Hear, NoBus
from clicket.model.ports.caller import Caller, Handle
from clicket.model.ports.clock import Clock, StoreClock, SystemClock, Timer, agree, elapsed, mark, sleep
from clicket.model.ports.health import health_after
from clicket.model.ports.host import AgentHost, Taken, Watch
from clicket.model.ports.query import LimitsScans, Query, ScanEnd, picked, scan_end_in
from clicket.model.ports.queue import LATER, Backlog, QueueName, TakenTokens, put_away
from clicket.model.ports.records import (
    SHARED_PLACE,
    Audited,
    CountsEnded,
    DocumentWrite,
    HealthEffect,
    KeepsTime,
    OutcomeStats,
    Records,
    StoredDocument,
    ToolHealth,
)
from clicket.model.ports.services import ChatModel, Embedder, SearchEngine, StreamingModel
from clicket.model.ports.store import (
    Append,
    Artifacts,
    CachedResults,
    CacheEntry,
    CacheItem,
    CacheStats,
    CacheUse,
    CallIdentity,
    CallRow,
    Calls,
    Capacity,
    Done,
    Duplicate,
    Found,
    Keep,
    OnHint,
    OnRemove,
    Owner,
    Ownership,
    Presence,
    Retention,
    Stale,
    Store,
    Stored,
    Sweep,
    Unstorable,
)
from clicket.model.ports.threads import CallPlace, ListsThreads, ThreadCounts, ThreadName, places_in, thread_counts_in

__all__ = [
    "LATER",
    "SHARED_PLACE",
    "AgentHost",
    "Append",
    "Artifacts",
    "Audited",
    "Backlog",
    "Bus",
    "CacheEntry",
    "CacheItem",
    "CacheStats",
    "CacheUse",
    "CachedResults",
    "CallIdentity",
    "CallPlace",
    "CallRow",
    "Caller",
    "Calls",
    "Capacity",
    "ChatModel",
    "Clock",
    "CountsEnded",
    "DocumentWrite",
    "Done",
    "Duplicate",
    "Embedder",
    "Found",
    "Handle",
    "HealthEffect",
    "Hear",
    "Keep",
    "KeepsTime",
    "LimitsScans",
    "ListsThreads",
    "NoBus",
    "OnHint",
    "OnRemove",
    "OutcomeStats",
    "Owner",
    "Ownership",
    "Presence",
    "Query",
    "QueueName",
    "Records",
    "Retention",
    "ScanEnd",
    "SearchEngine",
    "Stale",
    "Store",
    "StoreClock",
    "Stored",
    "StoredDocument",
    "StreamingModel",
    "Sweep",
    "SystemClock",
    "Taken",
    "TakenTokens",
    "ThreadCounts",
    "ThreadName",
    "Timer",
    "ToolHealth",
    "Unstorable",
    "Watch",
    "agree",
    "elapsed",
    "health_after",
    "mark",
    "picked",
    "places_in",
    "put_away",
    "scan_end_in",
    "sleep",
    "thread_counts_in",
]
