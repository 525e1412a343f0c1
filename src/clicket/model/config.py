"""The groups of the settings: what `clicket.toml` says about one subject, for the part of clicket that it is meant for.

A key of the file is the name of its field, unless the field has a name of its own. Times are seconds, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from clicket.model.tables import FINITE, SECRET

__all__ = [
    "CacheOptions",
    "CacheScope",
    "Credentials",
    "Limits",
    "Retention",
    "Seconds",
    "SecondsOr0",
    "Server",
    "Telemetry",
    "TelemetryMode",
    "ToolRanking",
    "ToolSearch",
]

CacheScope = Literal["caller", "thread"]
TelemetryMode = Literal["auto", "off", "otel"]
ToolRanking = Literal["words", "embeddings"]
_Count = Annotated[int, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0, le=FINITE)]
SecondsOr0 = Annotated[float, Meta(ge=0, le=FINITE)]
_DAY = 24 * 3600.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one runtime. None means no bound."""

    max_concurrency: _Count = 10
    """Calls that run at once."""
    max_thread_concurrency: _Count | None = None
    """Calls of one thread (conversation) that run at once."""
    max_queue: _Count = 50_000
    """Calls that may wait; one more raises `QueueFull`."""
    queue_timeout: Seconds | None = 3600.0
    """Seconds that a call may wait for a slot."""
    worker_threads: _Count = 4
    """Threads for sync tools."""
    tool_processes: _Count = 4
    """Child processes for tools with `isolation="process"`."""
    tool_process_memory: _Count | None = None
    """Bytes of data that each child process may have; half of the machine's memory unless given."""
    cancel_grace: Seconds = 2.0
    """Seconds that a body gets to stop before it is abandoned or killed."""
    close_timeout: SecondsOr0 = 10.0
    """Seconds that running calls get to finish when the runtime is closed; may be 0."""
    lease: Seconds = 10.0
    """Seconds after which an owner that shows no sign of life is taken for dead."""
    max_arguments_size: _Count = 1024 * 1024
    """Bytes of a call's arguments."""
    max_claims: _Count = 5
    """How often the owner of a call may die before the call is given up."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long, and how much of it, the store keeps what has ended."""

    seconds: Seconds | None = field(name="retention", default=None)
    """Seconds from its end for which a call is kept; 30 days on SQLite and PostgreSQL, 24 hours on Redis and in memory unless given."""
    calls: _Count | None = field(name="retention_calls", default=None)
    """How many ended calls are kept; of more, the oldest go first."""
    bytes: Annotated[int, Meta(ge=0)] | None = field(name="retention_bytes", default=None)
    """Bytes of events and artifacts of ended calls, the oldest of which go first; 2 GiB on SQLite and PostgreSQL, no bound on Redis
    and in memory unless given. 0: no bound."""
    thread_calls: _Count | None = field(name="thread_retention_calls", default=None)
    """How many ended calls of one thread are kept."""
    thread_bytes: _Count | None = field(name="thread_retention_bytes", default=None)
    """Bytes of the ended calls of one thread."""
    outcomes: SecondsOr0 = field(name="outcome_retention", default=30 * _DAY)
    """Seconds from its end for which the id and the outcome of a call are kept, if its caller gave the id; may be 0."""
    undo: Seconds = field(name="undo_for", default=30 * _DAY)
    """Seconds from its end for which a call can be undone whose tool has an undo; it is kept as long, whatever else is bounded."""
    health: Seconds = field(name="health_retention", default=7 * _DAY)
    """Seconds after their last change until a thread's tool states are removed."""
    memory: Seconds = field(name="memory_retention", default=30 * _DAY)
    """Seconds after its last turn until an agent's thread is removed."""
    series: Seconds = field(name="series_retention", default=30 * _DAY)
    """Seconds for which time series (`Runtime.series`) are kept."""
    spend: Seconds = field(name="spend_retention", default=400 * _DAY)
    """Seconds for which the entries of the ledger are kept."""
    notices: Seconds = field(name="notice_retention", default=7 * _DAY)
    """Seconds for which notices to webhooks are kept that were delivered or given up."""

    @property
    def age(self) -> float:
        """Seconds for which calls are kept."""
        return _DAY if self.seconds is None else self.seconds

    @property
    def most_bytes(self) -> int | None:
        """None: no bound."""
        return self.bytes or None

    def on_disk(self) -> Retention:
        """For a store on a disk, where calls may stay for long unless the settings say otherwise."""
        long = 30 * _DAY if self.seconds is None else self.seconds
        most = 2 * 1024**3 if self.bytes is None else self.bytes
        return msgspec.structs.replace(self, seconds=long, bytes=most)


class CacheOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How results are cached in one runtime."""

    enabled: bool = field(name="cache", default=True)
    """Whether results of tools with `cache=` are served again."""
    scope: CacheScope = field(name="cache_scope", default="caller")
    """Who shares cached results: all calls of a `caller`, or only those of one `thread`."""
    max_bytes: _Count = field(name="cache_max_bytes", default=64 * 1024 * 1024)
    """Bytes of cached results; of more, those least recently used go first."""
    ttl: Mapping[str, Seconds] = field(name="cache_ttl", default_factory=dict)
    """Seconds by tool for `cache=True`, `default` for the rest; in the environment: `weather=60, default=300`."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP server, and where it is reached."""

    public_url: str | None = None
    """Where the server is reached from outside: for links to the approver page, which notices of approvals carry then. Needs
    `secret_key`."""
    approval_link_timeout: Seconds = _DAY
    """Seconds for which a link to the approver page works."""
    api_keys: Annotated[tuple[str, ...], SECRET] = ()
    """Keys of the server that are not in the store: `name:read+call:secret`, or a bare secret with every scope. Never shown."""
    allowed_hosts: tuple[str, ...] = ()
    """More names under which the server may be asked for, as behind a proxy."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages of these origins may use the server."""

    def __repr__(self) -> str:
        return f"<server, {len(self.api_keys)} keys in the settings>"


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting for credentials of callers."""

    wait_timeout: Seconds | None = field(name="credential_timeout", default=_DAY)
    """Seconds for which a call waits for a credential of its caller. Empty: without a limit."""
    link_timeout: Seconds = field(name="credential_link_timeout", default=600.0)
    """Seconds for which a link to connect an account works."""


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """OpenTelemetry."""

    mode: TelemetryMode = field(name="telemetry", default="auto")
    """`otel` traces calls, `off` does not, `auto` does when `OTEL_*` or the program's own providers ask for it."""
    content: bool = field(name="telemetry_content", default=False)
    """Whether spans carry arguments and results, masked as in the journal."""


class ToolSearch(msgspec.Struct, frozen=True, kw_only=True):
    """How `find_tools` ranks."""

    ranking: ToolRanking = field(name="tool_ranking", default="words")
    """`words` needs nothing; `embeddings` also compares whole texts by the vectors of `tool_embedder`."""
    embedder: str | None = field(name="tool_embedder", default=None)
    """The embedder: `fastembed:MODEL`, `sentence-transformers:MODEL`, `onnx:FOLDER`, `openai:MODEL` or `openai:MODEL@URL`."""
