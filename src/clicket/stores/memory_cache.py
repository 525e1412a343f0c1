"""Cached results in a dictionary: the least recently used at its front."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from clicket.model.ports import CacheEntry, CacheItem, CacheStats, CacheUse, Sweep

__all__ = ["MemoryCache"]


class MemoryCache:
    def __init__(self) -> None:
        self.stats = CacheStats()
        self._items: OrderedDict[str, CacheItem] = OrderedDict()

    def get(self, key: str, now: float) -> CacheItem | None:
        item = self._items.get(key)
        return item if item is not None and item.is_fresh(now) else None

    def use(self, use: CacheUse, now: float) -> None:
        """What an ending call did: it was served, or it missed and may leave its result."""
        if use.hit:
            self.stats.hits += 1
            item = self._items.get(use.key)
            if item is not None:
                self._items[use.key] = msgspec.structs.replace(
                    item, accessed_at=now, access_count=item.access_count + 1
                )
                self._items.move_to_end(use.key)
            return
        self.stats.misses += 1
        if use.item is not None:
            self._drop(use.key)
            self._items[use.key] = use.item
            self.stats.items += 1
            self.stats.bytes += len(use.item.body)

    def _drop(self, key: str) -> int:
        item = self._items.pop(key, None)
        if item is None:
            return 0
        self.stats.items -= 1
        self.stats.bytes -= len(item.body)
        return len(item.body)

    def clear(self, tag: str | None) -> int:
        keys = [key for key, item in self._items.items() if tag is None or tag in item.tags]
        for key in keys:
            self._drop(key)
        return len(keys)

    def items(self, after: tuple[float, str], limit: int) -> list[CacheEntry]:
        found = sorted((item.expires_at, key) for key, item in self._items.items() if (item.expires_at, key) > after)
        return [_entry(self._items[key]) for _, key in found[:limit]]

    def remove(self, keys: Sequence[str]) -> int:
        known = [key for key in dict.fromkeys(keys) if key in self._items]
        for key in known:
            self._drop(key)
        return len(known)

    def sweep(self, now: float, max_bytes: int, limit: int) -> Sweep:
        swept = Sweep()
        expired = [key for key in self._items if self.get(key, now) is None]
        for key in expired[:limit]:
            swept.calls += 1
            swept.bytes += self._drop(key)
        while self.stats.bytes > max_bytes and swept.calls < limit:
            swept.calls += 1
            swept.bytes += self._drop(next(iter(self._items)))
            self.stats.evictions += 1
        swept.more = swept.calls == limit
        return swept


def _entry(item: CacheItem) -> CacheEntry:
    return CacheEntry.of(
        item.key, item.tags, len(item.body), item.created_at, item.expires_at, item.accessed_at, item.access_count
    )
