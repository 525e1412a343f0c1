"""The threads of the calls in memory, and where a search of them ends; `MemoryStore` has these functions as methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from clicket.model.ports import CallPlace, Query, ScanEnd, ThreadCounts, ThreadName
from clicket.stores.memory_call import MemoryCall

__all__ = ["places", "scan_end", "thread_counts"]


class _Store(Protocol):
    _calls: dict[int, MemoryCall]

    def _check_open(self) -> None: ...


async def places(store: _Store, before: int | None, limit: int) -> list[CallPlace]:
    store._check_open()
    below = (call for call in reversed(store._calls.values()) if before is None or call.key < before)
    return [CallPlace(call.key, call.caller, call.thread) for call in islice(below, limit)]


async def scan_end(store: _Store, query: Query, calls: int) -> ScanEnd | None:
    store._check_open()
    if len(store._calls) < calls:
        return None
    in_order = store._calls.values() if query.ascending else reversed(store._calls.values())
    seen = (
        call
        for call in in_order
        if (query.before is None or call.key < query.before) and (query.after is None or call.key > query.after)
    )
    last = next(islice(seen, calls - 1, None), None)
    return None if last is None else ScanEnd(key=last.key, created_at=last.created_at)


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
