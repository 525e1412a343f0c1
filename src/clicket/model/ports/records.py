"""What a store keeps beside calls: the health of tools in threads, stats, small documents, and an audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from clicket.model.ended import Ended
from clicket.model.figures import Figure

__all__ = [
    "SHARED_PLACE",
    "Audited",
    "CountsEnded",
    "DocumentWrite",
    "HealthEffect",
    "KeepsTime",
    "OutcomeStats",
    "Records",
    "StoredDocument",
    "ToolHealth",
]

SHARED_PLACE = ("", "")
"""The caller and the thread under which the health of a tool over all callers is kept. No thread of a call has this name."""
HealthEffect = Literal["completed", "served", "failed", "none"]
"""What an outcome says about its tool. `completed`: it ran and completed. `served`: completed from the cache, which says nothing
about the tool's health. `failed`: the tool failed. `none`: refused, cancelled, or it never ran."""


class OutcomeStats(msgspec.Struct, frozen=True, gc=False):
    """What an ending call adds to the stats and to its tool's health; the store writes it with the outcome."""

    tool: str
    """As in `Figure.tool`. A call of an unregistered tool changes no tool's health."""
    outcome: str
    error: str
    bucket: int | None
    seconds: float
    effect: HealthEffect
    at: float
    cause: str = ""
    """The beginning of the error's message, redacted; kept as `last_error` when the tool failed."""
    tool_version: str = ""
    """The version of the tool that failed."""
    shared: bool = False
    """The tool has one breaker over all callers: the outcome also changes its health at `SHARED_PLACE`."""


class ToolHealth(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One tool in one thread of one caller. Outcomes change the counters and times (`model/ports/health.py`); `put_tool_health` writes
    the rest, and needs the current version."""

    tool: str
    completions: int = 0
    """Also those that were served from the cache."""
    failures: int = 0
    consecutive_failures: int = 0
    first_success_at: float | None = None
    last_success_at: float | None = None
    last_failure_at: float | None = None
    last_error: str = ""
    status: str | None = None
    """The status that a person set; None: the status follows from the counters."""
    reason: str = ""
    by: str = ""
    announced: str = "available"
    """The status that was last announced to observers."""
    updated_at: float = 0.0
    version: int = 0
    """Grows with every write, those of outcomes included."""
    tool_version: str = ""
    """The version of the tool that `consecutive_failures` are failures of."""


class StoredDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A small document: an API key, a thread's memory. `kind` and `key` name it."""

    kind: str
    key: str
    body: bytes
    version: int
    updated_at: float


class DocumentWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A body for a document whose version must be `expect`; 0: there is none yet."""

    kind: str
    key: str
    body: bytes
    expect: int


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the audit log. Numbers grow, and are never used twice."""

    number: int
    at: float
    body: bytes


@runtime_checkable
class CountsEnded(Protocol):
    """A store that can say how calls ended without reading their events; for others the records are read."""

    async def ended(
        self, *, caller: str | None, tool: str | None, since: float, before: int | None, limit: int
    ) -> list[Ended]:
        """Calls that have ended and were made since a time, those of the highest keys first; all below the key `before`. Calls
        that cannot be read are left out, unless they are the last of a page: then they are in it with no outcome."""
        ...


@runtime_checkable
class KeepsTime(Protocol):
    """A store whose server has a clock of its own, which processes on several machines share."""

    async def time(self) -> float:
        """Now, in seconds since the epoch."""
        ...


class Records(Protocol):
    """The part of a store that is not calls."""

    # Tool health. The `stats` of an append change the health of (caller, thread, tool) by the table in `model/ports/health.py`,
    # atomically and with the append. An outcome is counted once: also if its append is written a second time after a lost
    # response, and never for a call that had ended. An empty tool name changes nothing. `on_hint("health", 0)` hints other
    # processes at a failed outcome and at every `put_tool_health`.

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        """The health of every tool that the thread has on record."""
        ...

    def tool_health_now(self, caller: str, thread: str, tool: str | None = None) -> list[ToolHealth] | None:
        """Without waiting, or None if it must be awaited: call `tool_health`. With `tool` at least that tool's health, if there is
        any."""
        ...

    def health_stamp(self) -> int | None:
        """A number that changes whenever another process may have written any tool's health: what was read is still true while
        it has not changed. None: the store cannot tell now, because it is closed, busy, or behind a network: read again."""
        ...

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        """Write a tool's whole health as version `expect + 1` if its version is `expect` (0: there is none); else False."""
        ...

    async def figures(self, caller: str | None = None) -> list[Figure]:
        """The totals of all outcomes since the store was created, of all callers or of one. Retention does not reduce them."""
        ...

    # Small documents with a version. Bodies are JSON up to a few megabytes.

    async def document(self, kind: str, key: str) -> StoredDocument | None: ...

    def document_now(self, kind: str, key: str) -> tuple[StoredDocument | None] | None:
        """Without waiting: `(document,)`, `(None,)` if there is none, or None if it must be awaited: call `document`."""
        ...

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        """Write version `expect + 1` if the version is `expect` (0: there is none); None writes whatever there is."""
        ...

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        """Write several documents in one commit, each as `put_document` does. False: a version is not the expected one, and nothing was
        written. A document is named at most once."""
        ...

    async def delete_document(self, kind: str, key: str) -> bool: ...

    async def documents(self, kind: str, *, after: str = "", limit: int = 1_000) -> list[StoredDocument]:
        """In the order of their keys (by code point), those above `after`."""
        ...

    # The audit log: written at its end, read from it, never changed. SQL stores refuse updates and deletes by trigger.

    async def audit(self, bodies: Sequence[bytes]) -> None: ...

    async def audited(self, *, before: int | None = None, limit: int = 100) -> list[Audited]:
        """The newest first."""
        ...
