"""Writes documents, their passages and their terms, inside a transaction of the caller: all of them, or none."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import apsw
import msgspec

from clicket.model.text.terms import all_terms, identifiers, singles, terms
from clicket.search.index.list_writer import ListWriter
from clicket.search.index.rows import Row, decoded, encoded, row_of
from clicket.search.index.splitter import passages
from clicket.search.ranking.profiles import LEAD, pack_profile
from clicket.search.text.names import own_names

__all__ = ["Added", "IndexWriter"]

_TITLE_WEIGHT = 2
_FIND = "SELECT key, hash FROM documents WHERE id = ?"
_DOCUMENT = "INSERT INTO documents (key, id, title, text, url, source, hash, page) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PASSAGE = "INSERT INTO passages (key, document, start, stop, length, headings, terms) VALUES (?, ?, ?, ?, ?, ?, ?)"
_NAME = "INSERT OR IGNORE INTO names (name, rank, document) VALUES (?, ?, ?)"


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of documents: new ones, those that replaced one of the same id, and those that were there already, unchanged."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0


class IndexWriter:
    """The changes of one transaction. `close` writes the totals, and must come before the commit."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._free: list[Any] = [key for (key,) in connection.execute("SELECT key FROM free ORDER BY key")]
        self._next: int = 1 + (connection.execute("SELECT max(key) FROM passages").get or 0)
        if self._free:
            self._next = max(self._next, self._free[-1] + 1)
        self._documents = self._passages = self._length = 0
        self._lists = ListWriter(connection)

    def add(self, given: Iterable[object]) -> Added:
        added = changed = unchanged = 0
        for number, one in enumerate(given, start=1):
            row = row_of(number, one)
            known = self.connection.execute(_FIND, (encoded(row.document.id),)).get
            hashed = row.hash()
            if known is None:
                added += 1
                self._insert(None, row, hashed)
            elif known[1] == hashed:
                unchanged += 1
            else:
                changed += 1
                self._delete(known[0])
                self._insert(known[0], row, hashed)
        return Added(added=added, changed=changed, unchanged=unchanged)

    def remove(self, ids: Iterable[str]) -> int:
        removed = 0
        for one in ids:
            known = self.connection.execute(_FIND, (encoded(one),)).get
            if known is not None:
                self._delete(known[0])
                removed += 1
        return removed

    def close(self) -> None:
        self._lists.flush()
        self.connection.execute(
            "UPDATE totals SET documents = documents + ?, passages = passages + ?, length = length + ?",
            (self._documents, self._passages, self._length),
        )

    def _insert(self, key: int | None, row: Row, hashed: bytes) -> None:
        execute = self.connection.execute
        one = row.document
        called = own_names(one.title, one.text[:LEAD])
        cut = passages(one.text, [offset for offset, _ in row.headings if 0 < offset < len(one.text)])
        read = [_terms(one.title, _headings(row, start), one.text[start:stop]) for start, stop in cut]
        page = pack_profile(one.title, one.text, called, [term for each in read for term in each.body])
        execute(_DOCUMENT, (key, *map(encoded, (one.id, one.title, one.text, one.url, one.source)), hashed, page))
        document = self.connection.last_insert_rowid() if key is None else key
        self._documents += 1
        for (start, stop), each in zip(cut, read, strict=True):
            passage = self._key()
            length = len(each.combined)
            counts = Counter(each.title * (_TITLE_WEIGHT - 1) + each.combined + each.others)
            execute(_PASSAGE, (passage, document, start, stop, length, encoded(_headings(row, start)), len(counts)))
            self._lists.add(passage, counts)
            self._passages += 1
            self._length += length
        for rank, name in enumerate(called):
            execute(_NAME, (name.encode(errors="replace").decode(), rank, document))

    def _key(self) -> int:
        if self._free:
            key: int = heappop(self._free)  # smallest first: of equal passages the earlier has the smaller key
            self.connection.execute("DELETE FROM free WHERE key = ?", (key,))
            return key
        self._next += 1
        return self._next - 1

    def _delete(self, document: int) -> None:
        execute = self.connection.execute
        title, text = map(decoded, execute("SELECT title, text FROM documents WHERE key = ?", (document,)).get)
        rows: list[Any] = execute(
            "SELECT key, start, stop, length, headings, terms FROM passages WHERE document = ?", (document,)
        ).fetchall()
        for key, start, stop, length, headings, count in rows:
            each = _terms(title, decoded(headings), text[start:stop])
            self._lists.remove(key, {*each.combined, *each.others}, count)
            execute("DELETE FROM vectors WHERE passage = ?", (key,))
            execute("INSERT INTO free (key) VALUES (?)", (key,))
            heappush(self._free, key)
            self._length -= length
        self._passages -= len(rows)
        execute("DELETE FROM passages WHERE document = ?", (document,))
        ranks: list[Any] = execute("SELECT name, rank FROM names WHERE document = ?", (document,)).fetchall()
        for name, rank in ranks:
            execute("DELETE FROM names WHERE name = ? AND rank = ? AND document = ?", (name, rank, document))
        execute("DELETE FROM documents WHERE key = ?", (document,))
        self._documents -= 1


def _headings(row: Row, start: int) -> str:
    """The headings that hold at the begin of a passage."""
    at = bisect_right(row.headings, start, key=lambda one: one[0])
    return row.headings[at - 1][1] if at else ""


class _Terms(NamedTuple):
    title: list[str]
    body: list[str]
    combined: list[str]
    """With those of the headings."""
    others: list[str]
    """Characters of unspaced scripts and whole identifiers, by which it can also be found."""


def _terms(title: str, headings: str, body: str) -> _Terms:
    """The terms by which a passage is found."""
    named = all_terms(title)
    own = terms(body)
    others = singles(title) + singles(body) + identifiers(title) + identifiers(headings) + identifiers(body)
    return _Terms(named, own, [*named, *terms(headings), *own], others)
