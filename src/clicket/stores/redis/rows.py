"""Rows that scripts return become calls again. A row that another program wrote is shown as damaged and stops no call."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.model import load_call
from clicket.model.ports import CacheEntry, CacheItem, Stored

__all__ = ["cache_entry", "cache_item", "packed_rows", "stored"]

_tags = msgspec.json.Decoder(tuple[str, ...])
_Text = msgspec.Raw
"""A text as Lua packs it, any bytes: with its length in front."""
_LENGTHS = {0xD9: 2, 0xDA: 3, 0xDB: 5}
"""Bytes of that, by the first one; of short texts one."""
_rows = msgspec.msgpack.Decoder(list[tuple[int, _Text, _Text, _Text, _Text, list[_Text] | str, _Text]])


def packed_rows(text: bytes) -> list[list[Any]]:
    """Rows that a script returns as one text, for `stored`."""
    return [
        [
            key,
            *map(_bytes, texts),
            units.encode() if isinstance(units, str) else [*map(_bytes, units)],
            _bytes(taken_from),
        ]
        for key, *texts, units, taken_from in _rows.decode(text)
    ]


def _bytes(text: msgspec.Raw) -> bytes:
    data = bytes(text)
    return data[_LENGTHS.get(data[0], 1) :]


def stored(row: list[Any]) -> Stored:
    """`{key, id, fence, claims, owner, units, taken from}`; units may be a complaint instead."""
    key, id, fence, claims, owner, units = row[:6]
    taken_from = row[6] if len(row) > 6 else b""
    name = id.decode(errors="backslashreplace")
    call = Stored(key=key, fence=0, claims=0, owner=None, events=[], id=name)
    if isinstance(units, bytes):
        call.damaged = f"not stored as clicket does: {units.decode(errors='replace')}"
        return call
    try:
        id.decode()
        call.fence, call.claims = int(fence), int(claims)
        call.owner = int(owner) if owner else None
        call.taken_from = int(taken_from) if taken_from else None
    except ValueError as error:
        call.damaged = f"a field is not what clicket writes: {error}"
        return call
    call.events, call.damaged = load_call(name, units)
    return call


def cache_item(key: str, row: list[Any]) -> CacheItem | None:
    """None if it is not there, or not of our making."""
    body, tags, created, expires, accessed, count = row
    try:
        return CacheItem(
            key=key,
            body=body,
            tags=_tags.decode(tags),
            created_at=float(created),
            expires_at=float(expires),
            accessed_at=float(accessed),
            access_count=int(count),
        )
    except (TypeError, ValueError):  # msgspec's errors are ValueErrors
        return None


def cache_entry(row: list[Any]) -> CacheEntry | None:
    """`{key, fields, size, score}`. None: it expired by itself, or is not of our making."""
    key, (tags, created, expires, accessed, count), size, _ = row
    try:
        times = float(created), float(expires), float(accessed)
        return CacheEntry.of(key.decode(), _tags.decode(tags), size, *times, int(count))
    except (TypeError, ValueError):
        return None
