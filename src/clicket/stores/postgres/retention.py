"""What is kept of ended calls, and what goes: the oldest end first, a few at a time, and never while a lock is held for long.

What breaks a bound is found by one read, which takes no locks, and removed in small steps; a step takes its calls from the
last reading while that is fresh.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

from clicket import system
from clicket.model.ports import Keep, OnRemove, Stored, Sweep
from clicket.stores.postgres.connection import Row
from clicket.stores.postgres.pool import Pool

__all__ = ["Retention"]

# A call that is not above the cut, in the order of ends, breaks a bound of the whole store.
_TOTAL = "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM calls WHERE ended_at IS NOT NULL AND kept IS NULL"
_CUT = """SELECT ended_at, key FROM (
        SELECT ended_at, key, row_number() OVER oldest AS calls, sum(bytes) OVER oldest AS weight
        FROM calls WHERE ended_at IS NOT NULL AND kept IS NULL WINDOW oldest AS (ORDER BY ended_at, key ROWS UNBOUNDED PRECEDING)) ended
    WHERE calls >= $1::bigint AND weight >= $2::bigint ORDER BY ended_at, key LIMIT 1"""
_BEFORE = """SELECT key, bytes FROM calls WHERE ended_at IS NOT NULL AND kept IS NULL AND (ended_at, key) <= ($1::float8, $2::bigint)
    ORDER BY ended_at, key LIMIT $3::bigint"""
# With bounds of threads. A call that its age or its thread's bound removes does not count against the bounds of all.
_OVER = """SELECT key, bytes FROM (
        SELECT key, bytes, ended_at, over, sum(1) FILTER (WHERE NOT over) OVER newest AS calls,
            sum(bytes) FILTER (WHERE NOT over) OVER newest AS weight
        FROM (
            SELECT key, bytes, ended_at, coalesce(ended_at < $1::float8, false)
                OR coalesce(row_number() OVER newest > $4::bigint, false)
                OR coalesce(sum(bytes) OVER newest > $5::bigint, false) AS over
            FROM calls WHERE ended_at IS NOT NULL AND kept IS NULL
            WINDOW newest AS (PARTITION BY thread ORDER BY ended_at DESC, key DESC)) threads
        WINDOW newest AS (ORDER BY ended_at DESC, key DESC)) everything
    WHERE over OR calls > $2::bigint OR weight > $3::bigint ORDER BY ended_at, key LIMIT $6::bigint"""
_UNNAMED = """SELECT name, size FROM blobs b WHERE NOT EXISTS (SELECT FROM artifacts a WHERE a.name = b.name)
    AND NOT EXISTS (SELECT FROM puts p WHERE p.name = b.name) AND NOT EXISTS (SELECT FROM pins p WHERE p.name = b.name)
    LIMIT $1::bigint"""
# What no call names goes with its pin, counted with its bytes; the rest goes with its last call.
_LOOSE = """SELECT b.name, b.size FROM pins p JOIN blobs b ON b.name = p.name WHERE p.until <= $1::float8
    AND NOT EXISTS (SELECT FROM artifacts a WHERE a.name = b.name) AND NOT EXISTS (SELECT FROM puts p WHERE p.name = b.name)"""
_END_PINS = """DELETE FROM pins WHERE name = ANY (ARRAY(
    SELECT name FROM pins WHERE until <= $1::float8 FOR UPDATE SKIP LOCKED))"""
_FORGET_PUTS = "DELETE FROM puts WHERE at < clock_timestamp() - make_interval(hours => 1)"
_KEEP = "UPDATE calls SET kept = true WHERE key = ANY ($1::bigint[]) AND ended_at IS NOT NULL"
_RELEASE = """UPDATE calls SET kept = NULL WHERE key = ANY (ARRAY(SELECT key FROM calls WHERE thread = $1::text AND caller = $2::text
    AND kept ORDER BY key LIMIT $3::bigint FOR UPDATE SKIP LOCKED)) RETURNING key"""
_RELEASE_STEP = 200
_READ_AHEAD = 50
_REMOVE_STEP = 20
"""Calls, which carry their whole results, that are read at once before they are removed."""
_FRESH = 60.0
_LONG = 300.0
_MAX_BYTES = 64 * 1024 * 1024


class _Plan:
    """What a sweep removes, counted once and removed in many steps: counting looks at all ended calls."""

    def __init__(self, keep: Keep, until: float) -> None:
        self.keep = keep
        self.until = until
        """By the monotonic clock: then it is counted anew."""
        self.cut: tuple[float, int] | None = None
        self.keys: list[int] = []
        """The next ones, where threads have bounds, and there is no cut."""


class Retention:
    """`load(keys)` reads calls."""

    def __init__(self, pool: Pool, load: Callable[[Sequence[int]], Awaitable[list[Stored]]]) -> None:
        self._pool = pool
        self._load = load
        self._plan: _Plan | None = None

    async def sweep(self, keep: Keep, limit: int, *, dry: bool, on_remove: OnRemove | None = None) -> Sweep:
        now = system.now() if keep.now is None else keep.now
        loose = await self._pool.query(_LOOSE, now)
        if dry:
            rows = (
                await self._over(keep, None)
                if _bounds_threads(keep)
                else await self._before(await self._find_cut(keep), None)
            )
            return Sweep(calls=len(rows), artifacts=len(loose), bytes=sum(row[1] for row in [*rows, *loose]))
        await self._pool.query(_END_PINS, now)
        artifacts, size = await self._remove_blobs(loose)
        keys, more = await self._next(keep, limit)
        if on_remove is not None:
            kept = set[int]()
            for at in range(0, len(keys), _REMOVE_STEP):
                kept.update(await on_remove(await self._load(keys[at : at + _REMOVE_STEP])) or ())
            if kept:
                await self._pool.query(_KEEP, sorted(kept))
                keys = [key for key in keys if key not in kept]
        swept = await self.remove(keys)
        swept.artifacts += artifacts
        swept.bytes += size
        swept.more = more
        if not more:
            await self._pool.query(_FORGET_PUTS)
            swept.artifacts += (await self._remove_blobs(await self._pool.query(_UNNAMED, limit)))[0]
        return swept

    async def remove(self, keys: Sequence[int]) -> Sweep:
        """Remove those that have ended."""
        ((number, weight, names),) = await self._pool.query(
            "SELECT number, weight, names FROM remove_calls($1::bigint[])", list(keys)
        )
        swept = Sweep(calls=number, bytes=weight)
        if names:
            sized = await self._pool.query("SELECT name, size FROM blobs WHERE name = ANY ($1::text[])", names)
            swept.artifacts = (await self._remove_blobs(sized))[0]
        return swept

    async def release(self, caller: str, thread: str) -> None:
        while len(await self._pool.query(_RELEASE, thread, caller, _RELEASE_STEP)) == _RELEASE_STEP:
            pass

    async def _next(self, keep: Keep, limit: int) -> tuple[list[int], bool]:
        """Up to `limit` calls to remove, and whether there may be more."""
        plan = self._plan
        if plan is None or plan.keep != keep or plan.until < system.monotonic():
            plan = self._plan = _Plan(keep, system.monotonic() + _FRESH)
            if not _bounds_threads(keep):
                plan.cut = await self._find_cut(keep)
        if plan.cut is not None:
            going = [row[0] for row in await self._before(plan.cut, limit)]
        else:
            if not plan.keys:
                plan.keys = [row[0] for row in await self._over(keep, limit * _READ_AHEAD)]
            going, plan.keys = plan.keys[:limit], plan.keys[limit:]
        if len(going) < limit:
            self._plan = None
        return going, len(going) == limit

    async def _find_cut(self, keep: Keep) -> tuple[float, int]:
        cut = (-1e308, 0) if keep.since is None else (keep.since, -1)
        if keep.calls is None and keep.bytes is None:
            return cut
        ((calls, size),) = await self._patiently(_TOTAL)
        over = (0 if keep.calls is None else calls - keep.calls, 0 if keep.bytes is None else size - keep.bytes)
        if max(over) <= 0:
            return cut
        found = await self._patiently(_CUT, *over)
        return max([cut, *((ended_at, key) for ended_at, key in found)])

    async def _before(self, cut: tuple[float, int], most: int | None) -> list[Row]:
        return await self._patiently(_BEFORE, *cut, most)

    async def _over(self, keep: Keep, most: int | None) -> list[Row]:
        bounds = (keep.since, keep.calls, keep.bytes, keep.thread_calls, keep.thread_bytes)
        return await self._patiently(_OVER, *bounds, most)

    async def _patiently(self, sql: str, *params: float | None) -> list[Row]:
        """A look at all ended calls may take longer than other statements."""

        async def once() -> list[Row]:
            async with self._pool.transaction() as connection:
                limit = self._pool.server.timeout
                await connection.script(f"SET LOCAL statement_timeout = {int(_LONG * 1000)}", limit=limit)
                return await connection.run(sql, params, limit=_LONG)

        return await self._pool.patiently(once)

    async def _remove_blobs(self, sized: Sequence[Row]) -> tuple[int, int]:
        """How many of these artifacts nothing kept, and their bytes."""
        removed = freed = 0
        for names in _portions(sized):
            ((number, weight),) = await self._pool.query("SELECT number, weight FROM drop_blobs($1::text[])", names)
            removed, freed = removed + number, freed + weight
        return removed, freed


def _bounds_threads(keep: Keep) -> bool:
    return keep.thread_calls is not None or keep.thread_bytes is not None


def _portions(sized: Sequence[Row]) -> Iterator[list[str]]:
    """Names in groups whose bytes are removed in a moment."""
    group: list[str] = []
    total = 0
    for name, size in sized:
        if group and total + size > _MAX_BYTES:
            yield group
            group, total = [], 0
        group.append(name)
        total += size
    if group:
        yield group
