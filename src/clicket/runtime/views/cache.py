"""`Runtime.cache`: statistics, listing and removal of cached results; and the `cache` argument of `Runtime` as settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from clicket.errors import PermissionDenied, UsageError, did_you_mean
from clicket.model.ports import CachedResults, CacheEntry, CacheStats

if TYPE_CHECKING:  # the client uses the types of this module without an engine
    from clicket.engine.people.audit import AuditLog

__all__ = ["Cache", "CachePage", "cache_settings", "checked_age"]

_BATCH = 200
"""Cached results that are read or removed in one request to the store."""


class CachePage(msgspec.Struct, kw_only=True):
    """One page of `Cache.list`; `cursor` None: it is the last."""

    items: list[CacheEntry]
    cursor: str | None = None


class Cache:
    """The cached results of a runtime's store, shared by all processes over it."""

    def __init__(self, store: CachedResults, audit: AuditLog, caller: str | None, now: Callable[[], float]) -> None:
        self._store = store
        self._audit = audit
        self._caller = caller
        self._now = now

    async def stats(self) -> CacheStats:
        return await self._store.cache_stats()

    async def list(self, *, tag: str | None = None, limit: int = 100, cursor: str | None = None) -> CachePage:
        """Cached results without their bodies, in the order in which they expire; `cursor` of one page fetches the next.

        Results are shared by all callers, so a runtime for one caller (`acting_for`) may not list them.
        """
        if self._caller is not None:
            raise PermissionDenied(
                "cached results are listed for the operator of this runtime, not for one of its callers."
            )
        after = _cursor(limit, cursor)
        now = self._now()
        items = list[CacheEntry]()
        async for entry in self._walk(after, tag):
            if entry.expires_at > now:
                if len(items) == limit:
                    last = items[-1]
                    return CachePage(items=items, cursor=f"{last.expires_at!r}:{last.key}")
                items.append(entry)
        return CachePage(items=items)

    async def clear(self, tag: str | None = None, *, max_age: float | None = None) -> int:
        """Remove the results that carry a tag (`tool:NAME`, or one of the tool's own), or all; returns how many.

        `max_age`: only results that are older than this many seconds.
        """
        removed = await self._store.cache_clear(tag) if max_age is None else await self._clear_old(tag, max_age)
        age = {} if max_age is None else {"max_age": max_age}
        await self._audit.kept(self._caller or "", "cache.cleared", tag=tag, removed=removed, **age)
        return removed

    async def _clear_old(self, tag: str | None, max_age: float) -> int:
        before = self._now() - checked_age(max_age)
        old: list[str] = []
        removed = 0
        async for entry in self._walk((0.0, ""), tag):
            if entry.created_at < before:
                old.append(entry.key)
            if len(old) == _BATCH:
                removed, old = removed + await self._store.cache_remove(old), []
        return removed + await self._store.cache_remove(old)

    async def _walk(self, after: tuple[float, str], tag: str | None) -> AsyncIterator[CacheEntry]:
        while True:
            found = await self._store.cache_items(after, _BATCH)
            for entry in found:
                if tag is None or tag in entry.tags:
                    yield entry
            if len(found) < _BATCH:
                return
            after = found[-1].expires_at, found[-1].key


def checked_age(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < inf:
        raise UsageError(f"max_age must be a number of seconds of at least 0, not {seconds!r}.")
    return seconds


def _cursor(limit: int, cursor: str | None) -> tuple[float, str]:
    """Where a page of cached results begins."""
    if type(limit) is not int or not 1 <= limit <= 1_000:
        raise UsageError(f"limit must be a number from 1 to 1,000, not {limit!r}.")
    if cursor is None:
        return 0.0, ""
    at, _, key = cursor.partition(":")
    try:
        return float(at), key
    except ValueError:
        raise UsageError(f"cursor must be the cursor of a page, not {cursor!r:.100}.") from None


def cache_settings(cache: bool | Mapping[str, Any] | None) -> dict[str, Any]:
    """`cache=False` turns the cache off; `cache={"scope": "thread", "max_bytes": …, "ttl": {…}}` configures it."""
    if cache is None or isinstance(cache, bool):
        return {"cache": cache}
    if not isinstance(cache, Mapping):
        raise UsageError(f"cache must be True, False or a mapping of settings, not {cache!r}.")
    known = {"scope": "cache_scope", "max_bytes": "cache_max_bytes", "ttl": "cache_ttl"}
    for name in cache:
        if name not in known:
            raise UsageError(f"cache has no setting {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    return {"cache": True, **{known[name]: value for name, value in cache.items()}}
