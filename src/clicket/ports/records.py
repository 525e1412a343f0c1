"""What a store keeps beside calls: how tools stand in threads, figures, small papers, and a log that only grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from clicket.model.figures import Figure

__all__ = ["Audited", "HealthEffect", "OutcomeStats", "Records", "StoredDocument", "ToolHealth", "health_after"]

HealthEffect = Literal["completed", "served", "failed", "none"]
"""What an ending says about its tool. `completed`: it ran and completed. `served`: completed from the cache, which says nothing
about the tool's health. `failed`: the tool failed. `none`: refused, cancelled, or it never ran."""


class OutcomeStats(msgspec.Struct, frozen=True, gc=False):
    """What an ending call adds to the figures and to its tool's standing; the store writes it with the outcome."""

    tool: str
    """As in `Figure.tool`. A call of an unregistered tool changes no standing."""
    outcome: str
    error: str
    bucket: int | None
    seconds: float
    effect: HealthEffect
    at: float
    cause: str = ""
    """The beginning of the error's message, redacted; kept as `last_error` when the tool failed."""


class ToolHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One tool in one thread of one caller. Counters are moved by tallies; the rest by whoever holds the current version."""

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
    """Set by hand; None: as the counters say."""
    reason: str = ""
    by: str = ""
    announced: str = "available"
    """The status that was last told to the outside."""
    updated_at: float = 0.0
    version: int = 0
    """Grows with every write, tallies included."""


def health_after(health: ToolHealth | None, stats: OutcomeStats) -> ToolHealth:
    """A standing after a tally that is not `none`: what every store does, each in its own language."""
    old = health or ToolHealth(tool=stats.tool)
    failed, first = stats.effect == "failed", old.first_success_at
    in_a_row = (
        old.consecutive_failures + 1 if failed else 0 if stats.effect == "completed" else old.consecutive_failures
    )
    return msgspec.structs.replace(
        old,
        completions=old.completions + (not failed),
        failures=old.failures + failed,
        consecutive_failures=in_a_row,
        first_success_at=first if failed or first is not None else stats.at,
        last_success_at=old.last_success_at if failed else stats.at,
        last_failure_at=stats.at if failed else old.last_failure_at,
        last_error=stats.cause if failed else old.last_error,
        updated_at=stats.at,
        version=old.version + 1,
    )


class StoredDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A small document: an API key, a thread's memory. `kind` and `key` name it."""

    kind: str
    key: str
    body: bytes
    version: int
    updated_at: float


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the audit log. Numbers grow, and are never used twice."""

    number: int
    at: float
    body: bytes


class Records(Protocol):
    """The part of a store that is not calls."""

    # How tools stand. A tally in an append moves `completions`, `failures`, `consecutive_failures`, the three times,
    # `last_error`, `updated_at` and `version` of (caller, thread, tool), atomically and with the append:
    #   completed: completions + 1, consecutive_failures = 0, first (if unset) and last success = at
    #   served:    completions + 1, first (if unset) and last success = at
    #   failed:    failures + 1, consecutive_failures + 1, last failure = at, last_error = cause
    #   none, or an empty tool: nothing
    # A tally is counted once: also if its append is written a second time after a lost answer, and never for a call that had
    # ended. `on_hint("health", 0)` hints others at a failed tally and at every `put_tool_health`.

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        """Every tool of which the thread has something on record."""
        ...

    def tool_health_now(self, caller: str, thread: str, tool: str | None = None) -> list[ToolHealth] | None:
        """At once where nothing needs waiting; None: ask `standings`. With `tool` at least that tool's, if there is one."""
        ...

    def health_stamp(self) -> int | None:
        """A number that changes whenever another process may have written any tool's health: what was read is still true while
        it has not changed. None: the store cannot tell without being asked over a network, or is busy; ask it again."""
        ...

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        """Write a whole standing as version `expect + 1` if its version is `expect` (0: there is none); else False."""
        ...

    async def figures(self, caller: str | None = None) -> list[Figure]:
        """Everything that tallies added up to since the store was made; of all callers, or of one. Retention takes nothing
        away from them."""
        ...

    # Papers: small documents with a version. Bodies are JSON up to a few megabytes.

    async def document(self, kind: str, key: str) -> StoredDocument | None: ...

    def document_now(self, kind: str, key: str) -> tuple[StoredDocument | None] | None:
        """The paper, or that there is none, at once where nothing needs waiting; None instead of the tuple: ask `paper`."""
        ...

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        """Write version `expect + 1` if the version is `expect` (0: there is none); None writes whatever there is."""
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
