"""Calls in memory that have no owner, and rates of tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from clicket import system
from clicket.model.ports import Backlog, TakenTokens
from clicket.stores.bucket import take_tokens
from clicket.stores.memory_call import MemoryCall

__all__ = ["MemoryQueues", "backlog_of"]


class MemoryQueues:
    def __init__(self) -> None:
        self._last_caller = ""
        self._full_at: dict[str, float] = {}

    def in_fair_order(self, unowned: Iterable[MemoryCall], queues: frozenset[str], limit: int) -> list[MemoryCall]:
        """The calls to claim, of those without an owner: of each caller one, then of each a second, by priority within a caller."""
        waiting = [call for call in unowned if (call.queue or call.tool) in queues]
        waiting.sort(key=lambda call: (-call.priority, call.key))
        taken_of: Counter[str] = Counter()
        ranked: list[tuple[int, bool, str, MemoryCall]] = []
        for call in waiting:
            taken_of[call.caller] += 1
            ranked.append((taken_of[call.caller], call.caller <= self._last_caller, call.caller, call))
        ranked.sort(key=lambda each: each[:3])
        taken = [call for *_, call in ranked[:limit]]
        if taken:
            self._last_caller = taken[-1].caller
        return taken

    def take(self, name: str, rate: float, burst: int, count: int) -> TakenTokens:
        taken, self._full_at[name] = take_tokens(self._full_at.get(name, 0.0), system.uptime(), rate, burst, count)
        return taken


def backlog_of(live: Iterable[MemoryCall]) -> list[Backlog]:
    counts: Counter[str] = Counter()
    oldest: dict[str, float] = {}
    for call in live:
        if not call.owned:
            queue = call.queue or call.tool
            counts[queue] += 1
            oldest.setdefault(queue, call.created_at)  # calls come in the order in which they were stored
    return [Backlog(queue=queue, count=counts[queue], oldest_at=oldest[queue]) for queue in sorted(counts)]
