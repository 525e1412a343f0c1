"""Cached results in SQLite: written with the outcome of their call, read by key in a few microseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from clicket.model.ports import CacheEntry, CacheItem, CacheStats, Sweep

__all__ = ["clear", "count_hits", "get", "items", "missed", "remove", "stats", "sweep"]

_COLUMNS = "key, body, tags, created_at, expires_at, accessed_at, access_count"
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(tuple[str, ...]).decode


def get(connection: apsw.Connection, key: str, now: float) -> CacheItem | None:
    for row in connection.execute(f"SELECT {_COLUMNS} FROM cache WHERE key = ?", (key,)):  # noqa: S608  # a constant
        item = _item(row)
        return item if item is not None and item.is_fresh(now) else None
    return None


def _item(row: tuple[Any, ...]) -> CacheItem | None:
    key, body, tags, created_at, expires_at, accessed_at, access_count = row
    try:
        return CacheItem(
            key=key,
            body=body,
            tags=_decode(tags),
            created_at=created_at,
            expires_at=expires_at,
            accessed_at=accessed_at,
            access_count=access_count,
        )
    except msgspec.MsgspecError:
        return None  # not of our making: as good as not there


def count_hits(connection: apsw.Connection, hits: Sequence[tuple[str, float]]) -> None:
    """Results that were served, and when: of a whole group at once."""
    last = dict(hits)
    for key, count in Counter(key for key, _ in hits).items():
        connection.execute(
            "UPDATE cache SET accessed_at = ?, access_count = min(access_count, 1 << 60) + ? WHERE key = ?",
            (last[key], count, key),
        )
    connection.execute(_count("hits"), (len(hits),))


def missed(connection: apsw.Connection, item: CacheItem | None) -> None:
    """A call that was not served has ended, and may leave its result."""
    connection.execute(_count("misses"), (1,))
    if item is None:
        return
    _drop(connection, "key = ?", (item.key,), 1)
    connection.execute(
        f"INSERT INTO cache ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608  # a constant
        (item.key, item.body, _encode(item.tags).decode(), item.created_at, item.expires_at, item.accessed_at, 0),
    )
    row = connection.last_insert_rowid()
    for tag in item.tags:
        connection.execute("INSERT OR IGNORE INTO cache_tags (tag, row) VALUES (?, ?)", (tag, row))
    connection.execute(_count("items", "bytes"), (1, len(item.body)))


def _drop(connection: apsw.Connection, where: str, values: tuple[Any, ...], limit: int) -> Sweep:
    """Remove up to `limit` items; `where` is a constant of this module."""
    sql = f"SELECT row, length(body), tags FROM cache WHERE {where} LIMIT ?"  # noqa: S608  # a constant
    swept = Sweep()
    for row, size, tags in list(connection.execute(sql, (*values, limit))):
        connection.execute("DELETE FROM cache WHERE row = ?", (row,))
        for tag in _known_tags(tags):
            connection.execute("DELETE FROM cache_tags WHERE tag = ? AND row = ?", (tag, row))
        swept.calls += 1
        swept.bytes += size
    if swept.calls:
        connection.execute(_count("items", "bytes"), (-swept.calls, -swept.bytes))
    return swept


def _count(*columns: str) -> str:
    """Add to totals, clamped against values that another program wrote: a number that cannot grow must not keep a call from ending."""
    sets = (f"{column} = max(min({column}, 1 << 60), 0) + ?" for column in columns)
    return f"UPDATE cache_totals SET {', '.join(sets)}"  # noqa: S608  # columns of this module


def _known_tags(text: str) -> tuple[str, ...]:
    try:
        return _decode(text)
    except msgspec.MsgspecError:
        return ()


def clear(connection: apsw.Connection, tag: str | None) -> int:
    if tag is None:
        count: int = connection.execute("SELECT count(*) FROM cache").get
        connection.execute("DELETE FROM cache; DELETE FROM cache_tags; UPDATE cache_totals SET items = 0, bytes = 0")
        return count
    return _drop(connection, "row IN (SELECT row FROM cache_tags WHERE tag = ?)", (tag,), -1).calls


def items(connection: apsw.Connection, after: tuple[float, str], limit: int) -> list[CacheEntry]:
    sql = """SELECT key, tags, length(body), created_at, expires_at, accessed_at, access_count FROM cache
        WHERE (expires_at, key) > (?, ?) ORDER BY expires_at, key LIMIT ?"""
    return [
        CacheEntry.of(key, _known_tags(tags), *rest) for key, tags, *rest in connection.execute(sql, (*after, limit))
    ]


def remove(connection: apsw.Connection, keys: Sequence[str]) -> int:
    return sum(_drop(connection, "key = ?", (key,), 1).calls for key in keys)


def stats(connection: apsw.Connection) -> CacheStats:
    for row in connection.execute("SELECT items, bytes, hits, misses, evictions FROM cache_totals"):
        return CacheStats(**dict(zip(CacheStats.__struct_fields__, row, strict=True)))
    return CacheStats()


def sweep(connection: apsw.Connection, now: float, max_bytes: int, limit: int) -> Sweep:
    swept = _drop(connection, "expires_at <= ?", (now,), limit)
    total: int = connection.execute("SELECT bytes FROM cache_totals LIMIT 1").get or 0
    while total > max_bytes and swept.calls < limit:
        oldest = _drop(connection, "row = (SELECT row FROM cache ORDER BY accessed_at, row LIMIT 1)", (), 1)
        if not oldest.calls:
            break
        connection.execute(_count("evictions"), (1,))
        total -= oldest.bytes
        swept.calls += 1
        swept.bytes += oldest.bytes
    swept.more = swept.calls == limit
    return swept
