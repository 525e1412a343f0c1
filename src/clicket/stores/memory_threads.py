"""The threads of the calls in memory; `MemoryStore` has these functions as methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from clicket.ports import CallPlace, ThreadCounts, ThreadName
from clicket.stores.memory_call import MemoryCall

__all__ = ["places", "thread_counts"]


class _Store(Protocol):
    _calls: dict[int, MemoryCall]

    def _check_open(self) -> None: ...


async def places(store: _Store, before: int | None, limit: int) -> list[CallPlace]:
    store._check_open()
    below = (call for call in reversed(store._calls.values()) if before is None or call.key < before)
    return [CallPlace(call.key, call.caller, call.thread) for call in islice(below, limit)]


async def thread_counts(store: _Store, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
    store._check_open()
    found: dict[ThreadName, list[MemoryCall]] = {each: [] for each in threads}
    for call in reversed(store._calls.values()):
        calls = found.get((call.caller, call.thread))
        if calls is not None and len(calls) < limit:
            calls.append(call)
    return [_counts(found[each]) for each in threads]


def _counts(calls: list[MemoryCall]) -> ThreadCounts:
    return ThreadCounts(
        states=dict(Counter(call.state.value for call in calls)),
        newest=max((call.key for call in calls), default=0),
        last_at=max((max(call.created_at, call.ended_at or 0.0) for call in calls), default=0.0),
    )
