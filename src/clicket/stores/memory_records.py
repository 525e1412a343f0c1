"""Standings, figures, papers and the audit log in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clicket.model.figures import Figure
from clicket.ports import Append, Audited, Paper, Standing, moved

__all__ = ["MemoryRecords"]


class MemoryRecords:
    """`now` dates papers and the log."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._standings: dict[tuple[str, str], dict[str, Standing]] = {}
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
            self._sums[kind] = (count + 1, total + seconds, min(least, seconds), max(most, seconds))
        if tally.weight == "none" or not tally.tool:
            return
        tools = self._standings.setdefault((change.caller, change.thread), {})
        tools[tally.tool] = moved(tools.get(tally.tool), tally)

    def standings(self, caller: str, thread: str) -> list[Standing]:
        return list(self._standings.get((caller, thread), {}).values())

    def put_standing(self, caller: str, thread: str, standing: Standing, expect: int) -> bool:
        known = self._standings.get((caller, thread), {}).get(standing.tool)
        if (known.version if known else 0) != expect:
            return False
        self._standings.setdefault((caller, thread), {})[standing.tool] = msgspec.structs.replace(
            standing, version=expect + 1
        )
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
