"""Tool health, figures, documents and the audit log in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clicket.model.figures import Figure
from clicket.model.ports import SHARED_PLACE, Audited, DocumentWrite, OutcomeStats, StoredDocument, ToolHealth
from clicket.model.ports.health import health_after_run, runs_of_outcomes

__all__ = ["MemoryRecords"]


class MemoryRecords:
    """`now` dates documents and the audit log."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._health: dict[tuple[str, str], dict[str, ToolHealth]] = {}
        self._sums: dict[tuple[str, str, str, str, int | None], list[float]] = {}
        """Of each kind of outcome: how many, their seconds together, the least and the most."""
        self._documents: dict[tuple[str, str], StoredDocument] = {}
        self._audited: list[Audited] = []

    def count(self, outcomes: Sequence[tuple[str, str, OutcomeStats]]) -> None:
        """Add up what ended calls say: the caller, the thread and the stats of each, in their order."""
        places: dict[tuple[str, str, str], list[OutcomeStats]] = {}
        last: tuple[str, str, str] | None = None
        several: list[OutcomeStats] = []
        for caller, thread, stats in outcomes:
            seconds = stats.seconds
            kind = (caller, stats.tool, stats.outcome, stats.error, stats.bucket)
            sums = self._sums.get(kind)
            if sums is None:
                self._sums[kind] = [1, seconds, seconds, seconds]
            else:
                sums[0] += 1
                sums[1] += seconds
                if seconds < sums[2]:
                    sums[2] = seconds
                elif seconds > sums[3]:
                    sums[3] = seconds
            if stats.effect != "none" and stats.tool:
                place = (caller, thread, stats.tool)
                if place != last:
                    several = places.setdefault(place, [])
                    last = place
                several.append(stats)
                if stats.shared:
                    places.setdefault((*SHARED_PLACE, stats.tool), []).append(stats)
        for (caller, thread, tool), several in places.items():
            tools = self._health.setdefault((caller, thread), {})
            for run in runs_of_outcomes(several):
                tools[tool] = health_after_run(tools.get(tool), tool, run)

    def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        return list(self._health.get((caller, thread), {}).values())

    def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        known = self._health.get((caller, thread), {}).get(health.tool)
        if (known.version if known else 0) != expect:
            return False
        written = msgspec.structs.replace(health, version=expect + 1)
        self._health.setdefault((caller, thread), {})[health.tool] = written
        return True

    def forget_health(self, since: float) -> None:
        for place, tools in list(self._health.items()):
            for tool in [t.tool for t in tools.values() if t.updated_at < since and t.status is None]:
                del tools[tool]
            if not tools:
                del self._health[place]

    def figures(self, caller: str | None) -> list[Figure]:
        return [
            Figure(
                caller=kind[0],
                tool=kind[1],
                outcome=kind[2],
                error=kind[3],
                bucket=kind[4],
                count=int(sums[0]),
                seconds=sums[1],
                least=sums[2],
                most=sums[3],
            )
            for kind, sums in self._sums.items()
            if caller is None or kind[0] == caller
        ]

    def document(self, kind: str, key: str) -> StoredDocument | None:
        return self._documents.get((kind, key))

    def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        known = self._documents.get((kind, key))
        version = known.version if known else 0
        if expect is not None and version != expect:
            return False
        self._documents[kind, key] = StoredDocument(
            kind=kind, key=key, body=body, version=version + 1, updated_at=self._now()
        )
        return True

    def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        for write in writes:
            known = self._documents.get((write.kind, write.key))
            if (known.version if known else 0) != write.expect:
                return False
        return all(self.put_document(write.kind, write.key, write.body, write.expect) for write in writes)

    def delete_document(self, kind: str, key: str) -> bool:
        return self._documents.pop((kind, key), None) is not None

    def documents(self, kind: str, after: str, limit: int) -> list[StoredDocument]:
        found = sorted(key for known, key in self._documents if known == kind and key > after)
        return [self._documents[kind, key] for key in found[:limit]]

    def audit(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._audited.append(Audited(number=len(self._audited) + 1, at=self._now(), body=body))

    def audited(self, before: int | None, limit: int) -> list[Audited]:
        end = len(self._audited) if before is None else max(before - 1, 0)
        return self._audited[max(end - limit, 0) : end][::-1]
