"""What is kept of ended calls, and what goes: the oldest end first, a few at a time, so that writers get through."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from clicket import system
from clicket.model.ports import Keep, OnRemove, Sweep
from clicket.stores.redis.rows import stored
from clicket.stores.redis.script_client import ScriptClient

__all__ = ["announced_sweep", "count_over", "release", "remove", "sweep", "totals"]

_STEP = 50
_REMOVE_STEP = 20
"""Calls, which carry their whole results, that are read at once before they are removed."""
_PEEK = 500
_YOUNG = 3600.0
"""Seconds after which an artifact that no call came to name is given up."""


async def sweep(client: ScriptClient, keep: Keep, limit: int) -> Sweep:
    swept = await _end_pins(client, keep, dry=False)
    while swept.calls < limit:
        step = min(_STEP, limit - swept.calls)
        calls, size, artifacts = await client.write("sweep", {**_bounds(keep), "limit": step, "young": _YOUNG})
        swept.calls += calls
        swept.bytes += size
        swept.artifacts += artifacts
        if calls < step:
            return swept
    swept.more = True
    return swept


async def announced_sweep(client: ScriptClient, keep: Keep, limit: int, on_remove: OnRemove) -> Sweep:
    """As `sweep`, of calls that `on_remove` was called with before."""
    keys: list[int] = []
    async with aclosing(_going(client, keep)) as going:
        async for key, _ in going:
            keys.append(key)
            if len(keys) == limit:
                break
    swept = Sweep(more=len(keys) == limit)
    for at in range(0, len(keys), _REMOVE_STEP):
        few = keys[at : at + _REMOVE_STEP]
        kept = set(await on_remove([stored(row) for row in await client.read("of_keys", {"keys": few})]) or ())
        if kept:
            await client.write("keep_calls", {"keys": sorted(kept)})
            few = [key for key in few if key not in kept]
        _add(swept, await remove(client, few))
    rest = await sweep(client, Keep(now=keep.now), limit)  # what expired by itself, and artifacts that nothing names
    _add(swept, rest)
    swept.more = swept.more or rest.more
    return swept


async def remove(client: ScriptClient, keys: Sequence[int]) -> Sweep:
    """Remove those that have ended."""
    swept = Sweep()
    for at in range(0, len(keys), _REMOVE_STEP):
        calls, size, artifacts = await client.write("remove", {"keys": list(keys[at : at + _REMOVE_STEP])})
        _add(swept, Sweep(calls=calls, bytes=size, artifacts=artifacts))
    return swept


def _add(swept: Sweep, more: Sweep) -> None:
    swept.calls += more.calls
    swept.bytes += more.bytes
    swept.artifacts += more.artifacts


async def release(client: ScriptClient, caller: str, thread: str, keep: int | None) -> None:
    """`keep`: milliseconds after which they expire by themselves; None: never."""
    after = 0
    expiry = {} if keep is None else {"keep": str(keep)}
    while True:
        asked = {"caller": caller, "thread": thread, "after": after, "limit": _STEP, **expiry}
        after = await client.write("release", asked)
        if not after:
            return


async def count_over(client: ScriptClient, keep: Keep) -> Sweep:
    """All that would go, found by walking the same lists in the same order."""
    swept = await _end_pins(client, keep, dry=True)
    async for _, weight in _going(client, keep):
        swept.calls += 1
        swept.bytes += weight
    return swept


async def _going(client: ScriptClient, keep: Keep) -> AsyncGenerator[tuple[int, int], None]:
    """The calls that break a bound, by key and size, each once."""
    found = await totals(client, keep)
    calls, size = found["ended"], found["ended_bytes"]
    gone: dict[int, int] = {}
    threads: Counter[str] = Counter()
    thread_bytes: Counter[str] = Counter()
    async for key, ended_at, weight, thread in _walk(client, "ended"):
        if keep.since is None or ended_at >= keep.since:
            break
        gone[key] = weight
        calls, size = calls - 1, size - weight
        threads[thread] += 1
        thread_bytes[thread] += weight
        yield key, weight
    for thread, (count, weighed) in found["threads"].items():
        count, weighed = count - threads[thread], weighed - thread_bytes[thread]  # noqa: PLW2901  # what is left of them
        async for key, _, weight, _ in _walk(client, f"thread_ended:{thread}"):
            if not (_over(count, keep.thread_calls) or _over(weighed, keep.thread_bytes)):
                break
            if key not in gone:
                gone[key] = weight
                count, weighed = count - 1, weighed - weight  # noqa: PLW2901  # the same
                calls, size = calls - 1, size - weight
                yield key, weight
    async for key, _, weight, _ in _walk(client, "ended"):
        if not (_over(calls, keep.calls) or _over(size, keep.bytes)):
            break
        if key not in gone:
            calls, size = calls - 1, size - weight
            yield key, weight


async def _end_pins(client: ScriptClient, keep: Keep, *, dry: bool) -> Sweep:
    swept = Sweep()
    start = 0
    now = repr(system.now() if keep.now is None else keep.now)
    while True:
        arguments = {"now": now, "start": start if dry else 0, "limit": _STEP, "dry": dry}
        over, artifacts, size = await client.write("pins_end", arguments)
        swept.artifacts += artifacts
        swept.bytes += size
        start += over
        if over < _STEP:
            return swept


async def totals(client: ScriptClient, keep: Keep | None = None) -> dict[str, Any]:
    """What the server counts: calls, bytes, the cache's figures, and threads that have more than they may."""
    bounds = _bounds(keep) if keep is not None else {}
    ended, calls, items, counted, threads = await client.read("totals", bounds)
    names = ("ended_bytes", "artifact_bytes", "cache_bytes", "hits", "misses", "evictions")
    numbers = {name: int(value or 0) for name, value in zip(names, counted, strict=True)}
    over = {name.decode(errors="replace"): (int(float(count)), int(float(size))) for name, count, size in threads}
    return {**numbers, "ended": ended, "calls": calls, "items": items, "threads": over}


async def _walk(client: ScriptClient, list: str) -> AsyncIterator[tuple[int, float, int, str]]:
    start = 0
    while True:
        found = await client.read("peek", {"list": list, "start": start, "count": _PEEK})
        for key, ended_at, weight, thread in found:
            yield key, float(ended_at or 0), int(weight), thread.decode(errors="replace")
        start += len(found)
        if len(found) < _PEEK:
            return


def _over(value: int, bound: int | None) -> bool:
    return bound is not None and value > bound


def _bounds(keep: Keep) -> dict[str, Any]:
    """Bounds that are set; numbers of bytes may be beyond what msgpack and Lua hold exactly, and are none then."""
    named = ("calls", "bytes", "thread_calls", "thread_bytes")
    given = {name: getattr(keep, name) for name in named if getattr(keep, name) is not None}
    bounds: dict[str, Any] = {name: value for name, value in given.items() if value < 2**53}
    if keep.since is not None:
        bounds["since"] = repr(keep.since)
    return bounds
