"""Which threads have calls, and counts of them, read in steps that hold up no other client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from clicket.model.ports import CallPlace, ThreadCounts, ThreadName, Unstorable
from clicket.stores.redis.script_client import ScriptClient

__all__ = ["places", "thread_counts"]

_NEWEST = 1 << 53
_STEP = 500
_AT_ONCE = 20
"""Threads that are asked for in one go."""


async def places(client: ScriptClient, before: int | None, limit: int) -> list[CallPlace]:
    before, found = _NEWEST if before is None else before, list[CallPlace]()
    while len(found) < limit:
        wanted = min(_STEP, limit - len(found))
        rows = await client.read("places", {"before": before, "limit": wanted})
        found += [
            CallPlace(key, caller.decode(errors="replace"), thread.decode(errors="replace"))
            for key, caller, thread in rows
        ]
        if len(rows) < wanted:
            break
        before = rows[-1][0]
    return found


async def thread_counts(client: ScriptClient, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
    found: list[ThreadCounts] = []
    for at in range(0, len(threads), _AT_ONCE):
        some = threads[at : at + _AT_ONCE]
        found += await asyncio.gather(*(_counts(client, caller, thread, limit) for caller, thread in some))
    return found


async def _counts(client: ScriptClient, caller: str, thread: str, limit: int) -> ThreadCounts:
    states: Counter[str] = Counter()
    newest = 0
    last_at = 0.0
    before = _NEWEST
    while states.total() < limit:
        wanted = min(_STEP, limit - states.total())
        asked = {"caller": caller, "thread": thread, "before": before, "limit": wanted}
        try:
            rows, before = await client.read("thread_counts", asked)
        except Unstorable:  # text that cannot be written was never stored
            break
        for state, count, key, at in rows:
            states[state.decode(errors="replace")] += count
            newest, last_at = max(newest, key), max(last_at, float(at))
        if not before:
            break
    return ThreadCounts(states=dict(states), newest=newest, last_at=last_at)
