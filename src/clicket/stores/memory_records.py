"""Standings, figures, papers and the audit log in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clicket.model.figures import Figure
from clicket.ports import Append, Audited, OutcomeStats, StoredDocument, ToolHealth

__all__ = ["MemoryRecords"]


class _Row(msgspec.Struct, gc=False):
    """A standing that is moved in place: every ending call does so."""

    tool: str
    completions: int = 0
    failures: int = 0
    consecutive_failures: int = 0
    first_success_at: float | None = None
    last_success_at: float | None = None
    last_failure_at: float | None = None
    last_error: str = ""
    status: str | None = None
    reason: str = ""
    by: str = ""
    announced: str = "available"
    updated_at: float = 0.0
    version: int = 0

    def move(self, stats: OutcomeStats) -> None:
        """What `ports.moved` says, in place."""
        at = stats.at
        if stats.effect == "failed":
            self.failures += 1
            self.consecutive_failures += 1
            self.last_failure_at, self.last_error = at, stats.cause
        else:
            self.completions += 1
            if stats.effect == "completed":
                self.consecutive_failures = 0
            if self.first_success_at is None:
                self.first_success_at = at
            self.last_success_at = at
        self.updated_at = at
        self.version += 1


class MemoryRecords:
    """`now` dates papers and the log."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._standings: dict[tuple[str, str], dict[str, _Row]] = {}
        self._sums: dict[tuple[str, str, str, str, int | None], tuple[int, float, float, float]] = {}
        self._papers: dict[tuple[str, str], StoredDocument] = {}
        self._audited: list[Audited] = []

    def count(self, change: Append) -> None:
        """What an ending call adds."""
        stats = change.stats
        if stats is None:
            return
        kind, seconds = (change.call.caller, stats.tool, stats.outcome, stats.error, stats.bucket), stats.seconds
        known = self._sums.get(kind)
        if known is None:
            self._sums[kind] = (1, seconds, seconds, seconds)
        else:
            count, total, least, most = known
            self._sums[kind] = (
                count + 1,
                total + seconds,
                seconds if seconds < least else least,  # noqa: FURB136  # every call comes by here
                seconds if seconds > most else most,  # noqa: FURB136
            )
        if stats.effect == "none" or not stats.tool:
            return
        place = (change.call.caller, change.call.thread)
        tools = self._standings.get(place)
        if tools is None:
            tools = self._standings[place] = {}
        row = tools.get(stats.tool)
        if row is None:
            row = tools[stats.tool] = _Row(stats.tool)
        row.move(stats)

    def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        rows = self._standings.get((caller, thread), {}).values()
        return [ToolHealth(**msgspec.structs.asdict(row)) for row in rows]

    def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        known = self._standings.get((caller, thread), {}).get(health.tool)
        if (known.version if known else 0) != expect:
            return False
        row = _Row(**{**msgspec.structs.asdict(health), "version": expect + 1})
        self._standings.setdefault((caller, thread), {})[health.tool] = row
        return True

    def forget_health(self, since: float) -> None:
        for place, tools in list(self._standings.items()):
            for tool in [t.tool for t in tools.values() if t.updated_at < since and t.status is None]:
                del tools[tool]
            if not tools:
                del self._standings[place]

    def figures(self, caller: str | None) -> list[Figure]:
        return [
            Figure(
                caller=kind[0],
                tool=kind[1],
                outcome=kind[2],
                error=kind[3],
                bucket=kind[4],
                count=sums[0],
                seconds=sums[1],
                least=sums[2],
                most=sums[3],
            )
            for kind, sums in self._sums.items()
            if caller is None or kind[0] == caller
        ]

    def document(self, kind: str, key: str) -> StoredDocument | None:
        return self._papers.get((kind, key))

    def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        known = self._papers.get((kind, key))
        version = known.version if known else 0
        if expect is not None and version != expect:
            return False
        self._papers[kind, key] = StoredDocument(
            kind=kind, key=key, body=body, version=version + 1, updated_at=self._now()
        )
        return True

    def delete_document(self, kind: str, key: str) -> bool:
        return self._papers.pop((kind, key), None) is not None

    def documents(self, kind: str, after: str, limit: int) -> list[StoredDocument]:
        found = sorted(key for known, key in self._papers if known == kind and key > after)
        return [self._papers[kind, key] for key in found[:limit]]

    def audit(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._audited.append(Audited(number=len(self._audited) + 1, at=self._now(), body=body))

    def audited(self, before: int | None, limit: int) -> list[Audited]:
        end = len(self._audited) if before is None else max(before - 1, 0)
        return self._audited[max(end - limit, 0) : end][::-1]
