"""Which threads a store has calls of, and how many in which state. Stores that are `ListsThreads` answer from their rows; of others the
calls themselves are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from clicket.model.ports.query import Query
from clicket.model.ports.store import Store, Stored

__all__ = ["CallPlace", "ListsThreads", "ThreadCounts", "ThreadName", "places_in", "thread_counts_in"]

_STEP = 200
ThreadName = tuple[str, str]
"""Caller and thread."""


class CallPlace(msgspec.Struct, frozen=True, gc=False):
    """The caller and the thread of one call."""

    key: int
    caller: str
    thread: str


class ThreadCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one thread of one caller."""

    states: dict[str, int] = {}
    """How many calls are in each state; those without any are left out."""
    newest: int = 0
    """The key of the newest call; 0: there is none."""
    last_at: float = 0.0
    """When the last of them was made or ended, in seconds since the epoch."""


@runtime_checkable
class ListsThreads(Protocol):
    async def places(self, before: int | None, limit: int) -> list[CallPlace]:
        """Callers and threads of the newest calls below the key `before`, the newest first: up to `limit` calls; an empty list says that
        there are no more. A call that cannot be read may have an empty thread."""
        ...

    async def thread_counts(self, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
        """Counts of the newest `limit` calls of each thread, in the order of `threads`, in as few questions as possible."""
        ...


async def places_in(store: Store, before: int | None, limit: int) -> list[CallPlace]:
    """As `ListsThreads.places`, of any store."""
    if isinstance(store, ListsThreads):
        return await store.places(before, limit)
    found = await store.history(Query(before=before, limit=min(limit, _STEP)))
    return [CallPlace(stored.key, *_place(stored)) for stored in found]


async def thread_counts_in(store: Store, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
    """As `ListsThreads.thread_counts`, of any store."""
    if isinstance(store, ListsThreads):
        return await store.thread_counts(threads, limit)
    return [await _counts(store, caller, thread, limit) for caller, thread in threads]


async def _counts(store: Store, caller: str, thread: str, limit: int) -> ThreadCounts:
    states: Counter[str] = Counter()
    newest = 0
    last_at = 0.0
    before = None
    looked = 0
    while looked < limit:
        found = await store.history(
            Query(thread=thread, caller=caller, before=before, limit=min(_STEP, limit - looked))
        )
        for stored in filter(_is_readable, found):
            states[stored.events[-1].state.value] += 1
            ended = next((event.at for event in stored.events if event.is_terminal), 0.0)
            newest, last_at = max(newest, stored.key), max(last_at, stored.events[0].at, ended)
        if len(found) < _STEP:
            break
        looked, before = looked + len(found), found[-1].key
    return ThreadCounts(states=dict(states), newest=newest, last_at=last_at)


def _place(stored: Stored) -> tuple[str, str]:
    if not _is_readable(stored):
        return "", ""
    first = stored.events[0].data
    return first.get("caller", ""), first["thread"]


def _is_readable(stored: Stored) -> bool:
    return stored.damaged is None and bool(stored.events)
