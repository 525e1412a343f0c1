"""Standings, figures, papers and the audit log in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clicket.model.figures import Figure
from clicket.ports import Append, Audited, Paper, Standing, Tally

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

    def move(self, tally: Tally) -> None:
        """What `ports.moved` says, in place."""
        at = tally.at
        if tally.weight == "failed":
            self.failures += 1
            self.consecutive_failures += 1
            self.last_failure_at, self.last_error = at, tally.cause
        else:
            self.completions += 1
            if tally.weight == "completed":
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
        self._papers: dict[tuple[str, str], Paper] = {}
        self._audited: list[Audited] = []

    def count(self, change: Append) -> None:
        """What an ending call adds."""
        tally = change.tally
        if tally is None:
            return
        kind, seconds = (change.caller, tally.tool, tally.outcome, tally.error, tally.bucket), tally.seconds
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
        if tally.weight == "none" or not tally.tool:
            return
        place = (change.caller, change.thread)
        tools = self._standings.get(place)
        if tools is None:
            tools = self._standings[place] = {}
        row = tools.get(tally.tool)
        if row is None:
            row = tools[tally.tool] = _Row(tally.tool)
        row.move(tally)

    def standings(self, caller: str, thread: str) -> list[Standing]:
        rows = self._standings.get((caller, thread), {}).values()
        return [Standing(**msgspec.structs.asdict(row)) for row in rows]

    def put_standing(self, caller: str, thread: str, standing: Standing, expect: int) -> bool:
        known = self._standings.get((caller, thread), {}).get(standing.tool)
        if (known.version if known else 0) != expect:
            return False
        row = _Row(**{**msgspec.structs.asdict(standing), "version": expect + 1})
        self._standings.setdefault((caller, thread), {})[standing.tool] = row
        return True

    def forget_standings(self, since: float) -> None:
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

    def paper(self, kind: str, key: str) -> Paper | None:
        return self._papers.get((kind, key))

    def put_paper(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        known = self._papers.get((kind, key))
        version = known.version if known else 0
        if expect is not None and version != expect:
            return False
        self._papers[kind, key] = Paper(kind=kind, key=key, body=body, version=version + 1, updated_at=self._now())
        return True

    def delete_paper(self, kind: str, key: str) -> bool:
        return self._papers.pop((kind, key), None) is not None

    def papers(self, kind: str, after: str, limit: int) -> list[Paper]:
        found = sorted(key for known, key in self._papers if known == kind and key > after)
        return [self._papers[kind, key] for key in found[:limit]]

    def audit(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._audited.append(Audited(number=len(self._audited) + 1, at=self._now(), body=body))

    def audited(self, before: int | None, limit: int) -> list[Audited]:
        end = len(self._audited) if before is None else max(before - 1, 0)
        return self._audited[max(end - limit, 0) : end][::-1]
