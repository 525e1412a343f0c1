"""How many more calls of each tool could start in this process now."""

from __future__ import annotations

from collections.abc import Iterable

from clicket.engine.executors import Limiter
from clicket.engine.fleet.queues import Queues
from clicket.engine.fleet.worker_entry import WorkerEntry
from clicket.engine.slots.plans import Plans
from clicket.tools import Registry

__all__ = ["Capacity"]


class Capacity:
    """`gives_away`: calls of tools are run by other processes."""

    def __init__(
        self,
        registry: Registry,
        plans: Plans,
        limiter: Limiter,
        queues: Queues,
        entry: WorkerEntry,
        *,
        gives_away: bool,
    ) -> None:
        self._registry = registry
        self._plans = plans
        self._limiter = limiter
        self._queues = queues
        self._entry = entry
        self._gives_away = gives_away

    def rooms(self) -> dict[str, int]:
        """By tool. A worker that is cordoned or draining has none, not even for tools that clicket brings along."""
        if not self._entry.is_active:
            return {}
        return self._plans.rooms(
            self._registry, self._limiter.used, internal_only=self._gives_away, runs=self._entry.has
        )

    def room(self, tool: str) -> int:
        """Of one tool."""
        if not self._entry.is_active:
            return 0
        return self._plans.room_for(
            tool, self._registry, self._limiter.used, internal_only=self._gives_away, runs=self._entry.has
        )

    def offered(self) -> dict[str, int]:
        """By queue, for processes that leave calls to others."""
        return {} if self._gives_away else self._queues.by_queue(self.rooms())

    def queues_of(self, tools: Iterable[str]) -> frozenset[str]:
        """The queues from which this process claims calls of these tools."""
        return self._queues.claimed_from(tools)
