"""What the index stores about folders and files: their state when they were read, and the documents made of them.

The caller holds a transaction. A file counts as read only when all its documents are stored.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import apsw
import msgspec

from clicket.errors import UsageError
from clicket.search.extract.formats import READER
from clicket.search.index.folder_walk import FileStat
from clicket.search.index.rows import decoded, encoded
from clicket.search.index.writer import IndexWriter

__all__ = [
    "Contents",
    "Draft",
    "FileWriter",
    "Folder",
    "StoredFile",
    "contents",
    "drop_root",
    "folders",
    "known_files",
    "open_root",
    "printable",
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


class StoredFile(msgspec.Struct, frozen=True, gc=False):
    """A file as it was when it was read. `reason` says why it could not be read; empty when it was."""

    size: int
    changed: int
    touched: int
    hash: bytes
    reader: int
    reason: str

    def is_unchanged(self, stat: FileStat) -> bool:
        """Size and times are the stored ones, so the file need not be opened."""
        return (self.size, self.changed, self.touched) == (stat.size, stat.changed, stat.touched)


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document to be made of a file. `ids` are the ids it may have, in order: it gets the first that is free."""

    ids: tuple[str, ...]
    title: str
    text: str
    url: str
    source: str
    headings: tuple[tuple[int, str], ...] = ()


_DRAFT_FIELDS = ("title", "text", "url", "source", "headings")


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder in the index. `skipped` counts files that could not be read."""

    path: str
    files: int
    skipped: int
    documents: int
    indexed_at: float
    options: dict[str, Any] = {}
    """The patterns with which it was indexed."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of an index. `size` is the size of its file in bytes; `space` names the embedder of its vectors."""

    documents: int
    passages: int
    vectors: int
    space: str
    size: int


def printable(path: str) -> str:
    """A path as text that can be printed and sent. Bytes that are not UTF-8 are escaped."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def open_root(writer: IndexWriter, path: str, options: dict[str, Any]) -> int:
    """The key of a folder, which is added if it is new. Raises `UsageError` when it lies inside an indexed folder.

    Indexed folders inside this one are removed: their files belong to this one now.
    """
    connection = writer.connection
    own = os.fsencode(path)
    inside = own.rstrip(b"/") + b"/"
    rows: list[Any] = connection.execute("SELECT key, path FROM roots ORDER BY path").fetchall()
    for key, other in rows:
        if own.startswith(other.rstrip(b"/") + b"/"):
            raise UsageError(
                f"{printable(path)} is part of {printable(os.fsdecode(other))}, which is in the index already: index that one again."
            )
        if other.startswith(inside):
            drop_root(writer, key)
    encoded_options = msgspec.json.encode(options).decode()
    connection.execute("INSERT OR IGNORE INTO roots VALUES (NULL, ?, ?, 0.0)", (own, encoded_options))
    connection.execute("UPDATE roots SET options = ? WHERE path = ?", (encoded_options, own))
    return int(connection.execute("SELECT key FROM roots WHERE path = ?", (own,)).get)


def drop_root(writer: IndexWriter, key: int) -> int:
    """Remove a folder, its files and their documents. Returns the number of documents."""
    connection = writer.connection
    rows: Any = connection.execute(_ALL, (key,))
    removed = writer.remove([decoded(one) for (one,) in rows])
    connection.execute("DELETE FROM files WHERE root = ?", (key,))
    connection.execute("DELETE FROM roots WHERE key = ?", (key,))
    return removed


def known_files(connection: apsw.Connection, root: int) -> dict[str, StoredFile]:
    """All stored files of a folder, by path."""
    rows: Any = connection.execute(_FILES, (root,))
    return {os.fsdecode(path): StoredFile(*rest) for path, *rest in rows}


def folders(connection: apsw.Connection) -> list[Folder]:
    rows: list[Any] = connection.execute(_FOLDERS).fetchall()
    return [
        Folder(
            path=printable(os.fsdecode(path)),
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


class FileWriter:
    """Changes to the files of one folder, in one transaction."""

    def __init__(self, writer: IndexWriter, root: int) -> None:
        self._writer = writer
        self._root = root
        self._keys: dict[str, int] = {}
        self._new: set[int] = set()

    def put(self, path: str, drafts: Sequence[Draft]) -> list[str]:
        """Store documents of a file, and return their ids. Until `finish`, the file counts as not read."""
        execute = self._writer.connection.execute
        ids = []
        file = self._file(path)
        if file not in self._new:
            execute("UPDATE files SET reader = 0 WHERE key = ?", (file,))

        def rows() -> Iterator[dict[str, Any]]:
            for draft in drafts:
                ids.append(self._free_id(file, draft.ids))
                yield {"id": ids[-1], **{name: getattr(draft, name) for name in _DRAFT_FIELDS}}

        self._writer.add(rows())
        for one in ids:
            execute(_OWN, (file, encoded(one)))
        return ids

    def finish(self, path: str, stat: FileStat, hashed: bytes, *, reason: str, ids: Collection[str]) -> None:
        """The file was read to its end, or could not be read. It has the documents `ids`; its other documents are removed."""
        file = self._file(path)
        if file not in self._new:
            self._writer.remove([one for one in self._owned(file) if one not in ids])
        self._store_state(file, stat, hashed, reason)

    def keep(self, path: str, stat: FileStat, stored: StoredFile) -> None:
        """The content did not change; store the new times."""
        self._store_state(self._file(path), stat, stored.hash, stored.reason)

    def remove(self, path: str) -> None:
        file = self._file(path)
        connection = self._writer.connection
        self._writer.remove(self._owned(file))
        connection.execute("DELETE FROM files WHERE key = ?", (file,))
        del self._keys[path]

    def close(self, at: float) -> None:
        """The folder is up to date."""
        self._writer.connection.execute("UPDATE roots SET indexed_at = ? WHERE key = ?", (at, self._root))

    def _file(self, path: str) -> int:
        known = self._keys.get(path)
        if known is None:
            execute = self._writer.connection.execute
            place = (self._root, os.fsencode(path))
            known = execute("SELECT key FROM files WHERE root = ? AND path = ?", place).get
            if known is None:
                execute(_NEW, place)
                known = self._writer.connection.last_insert_rowid()
                self._new.add(known)
            self._keys[path] = int(known)
        return int(known)

    def _owned(self, file: int) -> list[str]:
        rows: Any = self._writer.connection.execute(_OWNED, (file,))
        return [decoded(one) for (one,) in rows]

    def _store_state(self, file: int, stat: FileStat, hashed: bytes, reason: str) -> None:
        values = (stat.size, stat.changed, stat.touched, hashed, READER, reason, file)
        self._writer.connection.execute(_DONE, values)

    def _free_id(self, file: int, ids: Sequence[str]) -> str:
        """The first of these ids that no document outside of this file has."""
        for id in ids:
            found = self._writer.connection.execute(_OWNER, (encoded(id),)).fetchall()
            if not found or found[0][0] == file:
                return id
        return f"{ids[-1]}?{file}"
