"""Standings, figures, papers and the audit log in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clicket.model.figures import Figure
from clicket.ports import Append, Audited, Paper, Standing

__all__ = ["MemoryRecords"]


class MemoryRecords:
    """`now` dates papers and the log."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._standings: dict[tuple[str, str], dict[str, Standing]] = {}
        self._figures: dict[tuple[str, str, str, str, int | None], Figure] = {}
        self._papers: dict[tuple[str, str], Paper] = {}
        self._audited: list[Audited] = []

    def count(self, change: Append) -> None:
        """What an ending call adds."""
        tally = change.tally
        if tally is None:
            return
        key = (change.caller, tally.tool, tally.outcome, tally.error, tally.bucket)
        known = self._figures.get(key)
        self._figures[key] = Figure(
            caller=change.caller,
            tool=tally.tool,
            outcome=tally.outcome,
            error=tally.error,
            bucket=tally.bucket,
            count=1 if known is None else known.count + 1,
            seconds=tally.seconds if known is None else known.seconds + tally.seconds,
            least=tally.seconds if known is None else min(known.least, tally.seconds),
            most=tally.seconds if known is None else max(known.most, tally.seconds),
        )
        if tally.weight == "none" or not tally.tool:
            return
        tools = self._standings.setdefault((change.caller, change.thread), {})
        old = tools.get(tally.tool) or Standing(tool=tally.tool)
        failed = tally.weight == "failed"
        first = old.first_success_at
        tools[tally.tool] = msgspec.structs.replace(
            old,
            completions=old.completions + (not failed),
            failures=old.failures + failed,
            consecutive_failures=old.consecutive_failures + 1
            if failed
            else 0
            if tally.weight == "completed"
            else old.consecutive_failures,
            first_success_at=first if failed or first is not None else tally.at,
            last_success_at=old.last_success_at if failed else tally.at,
            last_failure_at=tally.at if failed else old.last_failure_at,
            last_error=tally.cause if failed else old.last_error,
            updated_at=tally.at,
            version=old.version + 1,
        )

    def standings(self, caller: str, thread: str) -> list[Standing]:
        return list(self._standings.get((caller, thread), {}).values())

    def put_standing(self, caller: str, thread: str, standing: Standing, expect: int) -> bool:
        tools = self._standings.setdefault((caller, thread), {})
        known = tools.get(standing.tool)
        if (known.version if known else 0) != expect:
            return False
        tools[standing.tool] = msgspec.structs.replace(standing, version=expect + 1)
        return True

    def forget_standings(self, since: float) -> None:
        for place, tools in list(self._standings.items()):
            for tool in [t.tool for t in tools.values() if t.updated_at < since]:
                del tools[tool]
            if not tools:
                del self._standings[place]

    def figures(self, caller: str | None) -> list[Figure]:
        return [figure for figure in self._figures.values() if caller is None or figure.caller == caller]

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
