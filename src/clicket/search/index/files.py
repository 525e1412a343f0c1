"""What an index knows of files: which there are, what they were when they were read, and which documents are theirs.

Everything here happens inside a transaction of the caller. A file counts as read only when all its documents are in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import apsw
import msgspec

from clicket.errors import UsageError
from clicket.search.extract.formats import READER
from clicket.search.index.rows import decoded, encoded
from clicket.search.index.walking import Seen
from clicket.search.index.writing import Writing

__all__ = [
    "Contents",
    "Draft",
    "Filing",
    "Folder",
    "Known",
    "contents",
    "drop_root",
    "folders",
    "known_files",
    "open_root",
    "shown",
]

_FILES = "SELECT path, size, changed, touched, hash, reader, reason FROM files WHERE root = ?"
_OWNER = "SELECT h.file FROM documents d LEFT JOIN holdings h ON h.document = d.key WHERE d.id = ?"
_OWN = "INSERT OR REPLACE INTO holdings (document, file) SELECT key, ? FROM documents WHERE id = ?"
_OWNED = "SELECT d.id FROM holdings h JOIN documents d ON d.key = h.document WHERE h.file = ?"
_ALL = """SELECT d.id FROM files f JOIN holdings h ON h.file = f.key JOIN documents d ON d.key = h.document
    WHERE f.root = ?"""
_NEW = "INSERT INTO files VALUES (NULL, ?, ?, -1, 0, 0, x'', 0, '')"
_DONE = "UPDATE files SET size = ?, changed = ?, touched = ?, hash = ?, reader = ?, reason = ? WHERE key = ?"
_FOLDERS = """SELECT r.path, r.options, r.indexed_at,
    (SELECT count(*) FROM files f WHERE f.root = r.key AND f.reason = ''),
    (SELECT count(*) FROM files f WHERE f.root = r.key AND f.reason <> ''),
    (SELECT count(*) FROM files f JOIN holdings h ON h.file = f.key WHERE f.root = r.key)
    FROM roots r ORDER BY r.path"""


class Known(msgspec.Struct, frozen=True, gc=False):
    """A file as it was when it was read. `reason` tells why it was not."""

    size: int
    changed: int
    touched: int
    hash: bytes
    reader: int
    reason: str

    def is_like(self, seen: Seen) -> bool:
        """Nothing about it changed: it need not be opened."""
        return (self.size, self.changed, self.touched) == (seen.size, seen.changed, seen.touched)


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document of a file. `names` are the ids that it may have: the first that is not another's."""

    names: tuple[str, ...]
    title: str
    text: str
    url: str
    source: str
    headings: tuple[tuple[int, str], ...] = ()


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that is in the index."""

    path: str
    files: int
    skipped: int
    documents: int
    indexed_at: float
    options: dict[str, Any] = {}
    """With which it was indexed."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What is in an index, in numbers. `size` is that of its file, `space` the embedder whose vectors it has."""

    documents: int
    passages: int
    vectors: int
    space: str
    size: int


def shown(path: str) -> str:
    """A path as text that can be printed and sent, whatever its bytes are."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def open_root(writing: Writing, path: str, options: dict[str, Any]) -> int:
    """The key of a folder, new or known. One inside another is refused; one around others takes them over."""
    connection, own = writing.connection, os.fsencode(path)
    inside = own.rstrip(b"/") + b"/"
    rows: list[Any] = connection.execute("SELECT key, path FROM roots ORDER BY path").fetchall()
    for key, other in rows:
        if own.startswith(other.rstrip(b"/") + b"/"):
            raise UsageError(
                f"{shown(path)} is part of {shown(os.fsdecode(other))}, which is in the index already: index that one again."
            )
        if other.startswith(inside):
            drop_root(writing, key)
    told = msgspec.json.encode(options).decode()
    connection.execute("INSERT OR IGNORE INTO roots VALUES (NULL, ?, ?, 0.0)", (own, told))
    connection.execute("UPDATE roots SET options = ? WHERE path = ?", (told, own))
    return int(connection.execute("SELECT key FROM roots WHERE path = ?", (own,)).get)


def drop_root(writing: Writing, key: int) -> int:
    """Remove a folder, its files and their documents; how many documents that were."""
    connection = writing.connection
    rows: Any = connection.execute(_ALL, (key,))
    removed = writing.remove([decoded(one) for (one,) in rows])
    connection.execute("DELETE FROM files WHERE root = ?", (key,))
    connection.execute("DELETE FROM roots WHERE key = ?", (key,))
    return removed


def known_files(connection: apsw.Connection, root: int) -> dict[str, Known]:
    """All files of a folder, in one look."""
    rows: Any = connection.execute(_FILES, (root,))
    return {os.fsdecode(path): Known(*rest) for path, *rest in rows}


def folders(connection: apsw.Connection) -> list[Folder]:
    rows: list[Any] = connection.execute(_FOLDERS).fetchall()
    return [
        Folder(
            path=shown(os.fsdecode(path)),
            options=msgspec.json.decode(options),
            indexed_at=indexed_at,
            files=files,
            skipped=skipped,
            documents=documents,
        )
        for path, options, indexed_at, files, skipped, documents in rows
    ]


def contents(connection: apsw.Connection) -> Contents:
    documents, passages, space = connection.execute("SELECT documents, passages, space FROM totals").get
    vectors = connection.execute("SELECT count(*) FROM vectors").get
    size = connection.pragma("page_count") * connection.pragma("page_size")
    return Contents(documents=documents, passages=passages, vectors=vectors, space=space, size=size)


class Filing:
    """Changes to the files of one folder, in one transaction."""

    def __init__(self, writing: Writing, root: int) -> None:
        self._writing = writing
        self._root = root
        self._keys: dict[str, int] = {}
        self._new: set[int] = set()

    def put(self, path: str, drafts: Sequence[Draft]) -> list[str]:
        """Documents of a file. It is not yet read to its end: were that all, it would be read again. The ids they got."""
        execute, ids = self._writing.connection.execute, []
        file = self._file(path)
        if file not in self._new:
            execute("UPDATE files SET reader = 0 WHERE key = ?", (file,))

        def rows() -> Iterator[dict[str, Any]]:
            for one in drafts:
                ids.append(self._free(file, one.names))
                yield {
                    "id": ids[-1],
                    "title": one.title,
                    "text": one.text,
                    "url": one.url,
                    "source": one.source,
                    "headings": one.headings,
                }

        self._writing.add(rows())
        for one in ids:
            execute(_OWN, (file, encoded(one)))
        return ids

    def finish(self, path: str, seen: Seen, hashed: bytes, *, reason: str = "", ids: set[str] | frozenset[str]) -> None:
        """It was read to its end, or not for a reason: it has these documents, and no others that it may have had before."""
        file = self._file(path)
        if file not in self._new:
            self._writing.remove([one for one in self._owned(file) if one not in ids])
        self._tell(file, seen, hashed, reason)

    def same(self, path: str, seen: Seen, known: Known) -> None:
        """Its content is what it was."""
        self._tell(self._file(path), seen, known.hash, known.reason)

    def forget(self, path: str) -> None:
        file, connection = self._file(path), self._writing.connection
        self._writing.remove(self._owned(file))
        connection.execute("DELETE FROM files WHERE key = ?", (file,))
        del self._keys[path]

    def close(self, at: float) -> None:
        """The folder is done."""
        self._writing.connection.execute("UPDATE roots SET indexed_at = ? WHERE key = ?", (at, self._root))

    def _file(self, path: str) -> int:
        known = self._keys.get(path)
        if known is None:
            execute, given = self._writing.connection.execute, (self._root, os.fsencode(path))
            known = execute("SELECT key FROM files WHERE root = ? AND path = ?", given).get
            if known is None:
                execute(_NEW, given)
                known = self._writing.connection.last_insert_rowid()
                self._new.add(known)
            self._keys[path] = int(known)
        return int(known)

    def _owned(self, file: int) -> list[str]:
        rows: Any = self._writing.connection.execute(_OWNED, (file,))
        return [decoded(one) for (one,) in rows]

    def _tell(self, file: int, seen: Seen, hashed: bytes, reason: str) -> None:
        values = (seen.size, seen.changed, seen.touched, hashed, READER, reason, file)
        self._writing.connection.execute(_DONE, values)

    def _free(self, file: int, names: Sequence[str]) -> str:
        """The first of these ids that no other file and nobody else has."""
        for one in names:
            found = self._writing.connection.execute(_OWNER, (encoded(one),)).fetchall()
            if not found or found[0][0] == file:
                return one
        return f"{names[-1]}?{file}"
