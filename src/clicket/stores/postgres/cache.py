"""Cached results: written by appends, looked up in groups. Lookups that arrive while one is under way share the next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from clicket.errors import ClicketError
from clicket.model.ports import CacheEntry, CacheItem, CacheStats, Found, Sweep
from clicket.stores.postgres.membership import Membership
from clicket.stores.postgres.pool import Pool

__all__ = ["Cache"]

logger = logging.getLogger("clicket.stores.postgres")

_GET = """SELECT key, body, tags, created_at, expires_at, accessed_at, access_count FROM cache WHERE key = ANY ($1::text[])"""
_MAX_GROUP = 256

# Locked in the order of their keys, as appends do.
_CLEAR = """WITH gone AS (DELETE FROM cache WHERE key IN (
        SELECT key FROM cache WHERE $1::text IS NULL OR $1::text = ANY (tags) ORDER BY key FOR UPDATE) RETURNING key)
    SELECT count(*) FROM gone"""
_STATS = """SELECT (SELECT count(*) FROM cache), (SELECT coalesce(sum(bytes), 0)::bigint FROM cache),
    coalesce(sum(hits), 0)::bigint, coalesce(sum(misses), 0)::bigint, coalesce(sum(evictions), 0)::bigint FROM cache_counts"""
_ITEMS = """SELECT key, tags, bytes, created_at, expires_at, accessed_at, access_count FROM cache
    WHERE (expires_at, key COLLATE "C") > ($1::float8, $2::text COLLATE "C") ORDER BY expires_at, key COLLATE "C" LIMIT $3::integer"""
_REMOVE = """WITH gone AS (DELETE FROM cache WHERE key IN (
        SELECT key FROM cache WHERE key = ANY ($1::text[]) ORDER BY key FOR UPDATE) RETURNING key)
    SELECT count(*) FROM gone"""
# Expired ones first, then the least recently used until the rest fits.
_SWEEP = """WITH lasting AS (
        SELECT key, bytes, expires_at <= $1::float8 AS expired,
            sum(bytes) FILTER (WHERE expires_at > $1::float8) OVER (ORDER BY accessed_at DESC, key DESC) AS room FROM cache),
    going AS (
        SELECT c.key, l.expired FROM lasting l JOIN cache c USING (key) WHERE l.expired OR l.room > $2::bigint
        ORDER BY NOT l.expired, c.accessed_at, c.key LIMIT $3::integer FOR UPDATE OF c SKIP LOCKED),
    gone AS (DELETE FROM cache c USING going g WHERE c.key = g.key RETURNING c.bytes, g.expired),
    counted AS (
        INSERT INTO cache_counts AS k (owner, evictions) SELECT $4::bigint, count(*) FROM gone WHERE NOT expired
        HAVING count(*) > 0
        ON CONFLICT (owner) DO UPDATE SET evictions = k.evictions + excluded.evictions)
    SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone"""


class Cache:
    def __init__(self, pool: Pool, membership: Membership) -> None:
        self._pool = pool
        self._membership = membership
        self._waiting: list[tuple[str, float, Found]] = []
        self._task: asyncio.Task[None] | None = None

    def get(self, key: str, now: float, found: Found) -> None:
        self._waiting.append((key, now, found))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="clicket-postgres-cache")

    async def drain(self) -> None:
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:_MAX_GROUP], self._waiting[_MAX_GROUP:]
                items: dict[str, CacheItem] = {}
                trouble: ClicketError | None = None
                try:
                    rows = await self._pool.query(_GET, sorted({key for key, _, _ in group}))
                    items = {row[0]: _item(row) for row in rows}
                except ClicketError as error:
                    trouble = error
                for key, now, found in group:
                    item = items.get(key)
                    try:
                        found(item if item is not None and item.is_fresh(now) else None, trouble)
                    except Exception:
                        logger.exception("the follow-up of a look into the cache failed")
        finally:
            self._task = None

    async def clear(self, tag: str | None) -> int:
        if tag is not None and "\0" in tag:
            return 0
        return int((await self._pool.query(_CLEAR, tag))[0][0])

    async def items(self, after: tuple[float, str], limit: int) -> list[CacheEntry]:
        return [CacheEntry.of(*row) for row in await self._pool.query(_ITEMS, *after, limit)]

    async def remove(self, keys: Sequence[str]) -> int:
        return int((await self._pool.query(_REMOVE, list(keys)))[0][0])

    async def stats(self) -> CacheStats:
        ((items, size, hits, misses, evictions),) = await self._pool.query(_STATS)
        return CacheStats(items=items, bytes=size, hits=hits, misses=misses, evictions=evictions)

    async def sweep(self, now: float, max_bytes: int, limit: int) -> Sweep:
        ((number, size),) = await self._pool.query(_SWEEP, now, max_bytes, limit, self._membership.id)
        return Sweep(calls=number, bytes=size, more=number == limit)


def _item(row: tuple[Any, ...]) -> CacheItem:
    key, body, tags, created_at, expires_at, accessed_at, access_count = row
    return CacheItem(
        key=key,
        body=body,
        tags=tuple(tags),
        created_at=created_at,
        expires_at=expires_at,
        accessed_at=accessed_at,
        access_count=access_count,
    )
