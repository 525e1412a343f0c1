"""Writes posting lists: which passages have a term, and how often.

A list is stored in blocks, in the order of the passages; an entry is `passage * 16 + count`, four bytes. Additions and removals are
collected and written together, the removals first: then a passage that is added may have the key of one that was removed.

The blocks of a long list also have bits (`count_bits`), by which a search sees all its passages at once.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

import apsw

__all__ = ["COUNTS", "MAX_COUNT", "ListWriter", "count_bits", "unpacked"]

MAX_COUNT = 15
"""The highest number of occurrences that is told apart; it fits into the lower four bits of an entry."""
COUNTS = (1, 2, 3, 6)
_BLOCK = 2_048
"""Entries from which on a block is not extended, so that adding one document does not write long lists again."""
_MANY = 2
"""The blocks of a list with more blocks than this have bits."""
_MAX_BITS = 8 * _BLOCK * len(COUNTS)
"""Bytes of the bits of a block. Without them a search makes them itself, which takes longer."""
_BIT = (1, 2, 4, 8, 16, 32, 64, 128)
_MAX_PENDING = 2_000_000
"""Entries in memory."""
_TAIL = "SELECT block, entries FROM posting_lists WHERE term = ? ORDER BY block DESC LIMIT 1"
_BLOCKS = "SELECT block, entries FROM posting_lists WHERE term = ? ORDER BY block"
_INSERT = "INSERT INTO posting_lists (term, block, size, entries, bits) VALUES (?, ?, ?, ?, ?)"
_UPDATE = "UPDATE posting_lists SET size = ?3, entries = ?4, bits = iif(bits IS NULL, NULL, ?5) WHERE term = ?1 AND block = ?2"
_SET_BITS = "UPDATE posting_lists SET bits = ? WHERE term = ? AND block = ?"
_DELETE = "DELETE FROM posting_lists WHERE term = ? AND block = ?"


_Block = tuple[str, int, int, bytes, bytes | None]
"""The term, the number of the block, its size, its entries, its bits."""


def unpacked(data: bytes) -> array[int]:
    entries = array("I")
    entries.frombytes(data)
    if sys.byteorder == "big":
        entries.byteswap()
    return entries


def _packed(entries: Iterable[int]) -> bytes:
    packed = array("I", entries)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def count_bits(entries: Sequence[int]) -> bytes:
    """For each number of `COUNTS`, the passages that have the term as often or more often: a bit for each passage from the first one on.
    The sets are of the same size."""
    base = entries[0] >> 4
    size = ((entries[-1] >> 4) - base) // 8 + 1
    bits = bytearray(len(COUNTS) * size)
    for number, count in enumerate(COUNTS):
        entries = [entry for entry in entries if entry & 15 >= count]
        offset = 8 * number * size - base
        for key in [(entry >> 4) + offset for entry in entries]:
            bits[key >> 3] |= _BIT[key & 7]
    return bytes(bits)


class ListWriter:
    """The changes of one transaction. `flush` writes those that are left, and must come before the commit."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._added: defaultdict[str, list[int]] = defaultdict(list)
        self._new: set[int] = set()
        self._pending = 0
        self._removed: defaultdict[str, list[int]] = defaultdict(list)
        self._gone: dict[int, int] = {}

    def add(self, passage: int, counts: Mapping[str, int]) -> None:
        added = self._added
        base = passage * (MAX_COUNT + 1)
        for term, count in counts.items():
            added[term].append(base + (count if count < MAX_COUNT else MAX_COUNT))  # noqa: FURB136 - hot, and min() is slower
        self._new.add(passage)
        self._pending += len(counts)
        if self._pending > _MAX_PENDING:
            self.flush()

    def remove(self, passage: int, terms: Iterable[str], count: int) -> None:
        """Remove a passage from the lists of its terms. `count` is the number of lists that it is in: if another version of this
        program read other terms in it, all lists are searched for it."""
        if passage in self._new:
            self.flush()
        for term in terms:
            self._removed[term].append(passage)
        self._gone[passage] = count

    def flush(self) -> None:
        if self._gone:
            self._remove()
        if self._added:
            is_empty = self._connection.execute("SELECT 1 FROM posting_lists LIMIT 1").get is None
            self._connection.executemany(
                _INSERT,
                (row for term in sorted(self._added) for row in self._blocks(term, self._added[term], is_empty)),
            )
        self._added.clear()
        self._new.clear()
        self._pending = 0

    def _remove(self) -> None:
        found: Counter[int] = Counter()
        for term in sorted(self._removed):
            rows: list[Any] = self._connection.execute(_BLOCKS, (term,)).fetchall()
            for block, data in rows:
                self._remove_from(term, block, data, self._removed[term], found)
        missing = [passage for passage, count in self._gone.items() if found[passage] < count]
        if missing:
            every: list[Any] = self._connection.execute("SELECT term, block FROM posting_lists").fetchall()
            for term, block in every:
                data = self._connection.execute(
                    "SELECT entries FROM posting_lists WHERE term = ? AND block = ?", (term, block)
                ).get
                self._remove_from(term, block, data, missing, found)
        self._removed.clear()
        self._gone.clear()

    def _remove_from(self, term: str, block: int, data: bytes, passages: Iterable[int], found: Counter[int]) -> None:
        entries = unpacked(data)
        size = len(entries)
        for passage in passages:
            base = passage * (MAX_COUNT + 1)
            at = bisect_left(entries, base)
            if at < len(entries) and entries[at] <= base + MAX_COUNT:
                del entries[at]
                found[passage] += 1
        if not entries:
            self._connection.execute(_DELETE, (term, block))
        elif len(entries) < size:
            bits = _stored_bits(entries) if size > _BLOCK // 2 else None
            self._connection.execute(_UPDATE, (term, block, len(entries), _packed(entries), bits))

    def _blocks(self, term: str, new: list[int], is_empty: bool) -> Iterable[_Block]:
        """The blocks to be inserted for a list, with new entries; those that they replace are deleted."""
        new.sort()
        tail: Any = None if is_empty else self._connection.execute(_TAIL, (term,)).get
        if tail is None:
            return _split(term, 0, new)
        block = tail[0]
        entries = unpacked(tail[1])
        if new[0] > entries[-1]:
            if len(entries) < _BLOCK:
                self._connection.execute(_DELETE, (term, block))
                new = [*entries, *new]
            else:
                block += 1
            if tail[0] < _MANY < block + ceil(len(new) / _BLOCK):  # the list becomes a long one
                first: list[Any] = self._connection.execute(_BLOCKS, (term,)).fetchall()
                self._connection.executemany(
                    _SET_BITS, [(_stored_bits(unpacked(data)), term, at) for at, data in first if at < block]
                )
            return _split(term, block, new)
        rows: list[Any] = self._connection.execute(
            _BLOCKS, (term,)
        ).fetchall()  # keys of removed passages are used again
        whole = sorted([*new, *(entry for _, data in rows for entry in unpacked(data))])
        for number, _ in rows:
            self._connection.execute(_DELETE, (term, number))
        return _split(term, 0, whole)


def _split(term: str, first: int, entries: Sequence[int]) -> list[_Block]:
    parts = [entries[at : at + _BLOCK] for at in range(0, len(entries), _BLOCK)]
    is_long = first + len(parts) > _MANY
    return [
        (term, first + number, len(part), _packed(part), _stored_bits(part) if is_long else None)
        for number, part in enumerate(parts)
    ]


def _stored_bits(entries: Sequence[int]) -> bytes | None:
    size = (entries[-1] - entries[0]) // 128 + 1
    return count_bits(entries) if len(COUNTS) * size <= _MAX_BITS else None
