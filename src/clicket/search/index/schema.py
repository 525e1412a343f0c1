"""The tables of an index, and the refusal of every file that is not one.

Postings are FTS5's, over terms that were made by `search.text.terms`; the texts stand once, beside it. Text of documents is
kept as bytes, so that a lone surrogate or a NUL comes back as it was given.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import apsw

from clicket.errors import StoreUnavailable, UsageError

__all__ = ["APPLICATION_ID", "MEMORY", "VERSION", "connect", "explained", "prepare"]

APPLICATION_ID = 0x434C4B49  # "CLKI"
MEMORY = ":memory:"
_BUSY_MS = 30_000
_TRIES, _PAUSE = 100, 0.02
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE documents (
            key INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, title BLOB NOT NULL, text BLOB NOT NULL, url BLOB NOT NULL,
            source BLOB NOT NULL, hash BLOB NOT NULL, page BLOB NOT NULL) STRICT""",
        # Keys of passages are used again: what is kept in memory for each of them stays as small as the index is.
        """CREATE TABLE passages (
            key INTEGER PRIMARY KEY, document INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
            length INTEGER NOT NULL, headings BLOB NOT NULL) STRICT""",
        "CREATE INDEX passages_document ON passages (document)",
        "CREATE TABLE free (key INTEGER PRIMARY KEY) STRICT",
        # Without positions: half the size, and read twice as fast. How often a term occurs is a token of its own.
        "CREATE VIRTUAL TABLE postings USING fts5 (terms, content='', contentless_delete=1, detail=none, tokenize='ascii')",
        "CREATE VIRTUAL TABLE instances USING fts5vocab (postings, instance)",
        # FTS5 would count by walking over all of them.
        "CREATE TABLE frequencies (term TEXT NOT NULL PRIMARY KEY, passages INTEGER NOT NULL) STRICT, WITHOUT ROWID",
        """CREATE TABLE names (
            name TEXT NOT NULL, rank INTEGER NOT NULL, document INTEGER NOT NULL,
            PRIMARY KEY (name, rank, document)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX names_document ON names (document, rank)",
        "CREATE TABLE vectors (passage INTEGER PRIMARY KEY, vector BLOB NOT NULL) STRICT",
        """CREATE TABLE totals (
            documents INTEGER NOT NULL, passages INTEGER NOT NULL, length INTEGER NOT NULL, space TEXT NOT NULL,
            dimensions INTEGER NOT NULL) STRICT""",
        "INSERT INTO totals VALUES (0, 0, 0, '', 0)",
        # Folders that were indexed, their files, and which documents are made of which file. Paths are the bytes of the system.
        """CREATE TABLE roots (
            key INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, options TEXT NOT NULL, indexed_at REAL NOT NULL) STRICT""",
        """CREATE TABLE files (
            key INTEGER PRIMARY KEY, root INTEGER NOT NULL, path BLOB NOT NULL, size INTEGER NOT NULL, changed INTEGER NOT NULL,
            touched INTEGER NOT NULL, hash BLOB NOT NULL, reader INTEGER NOT NULL, reason TEXT NOT NULL,
            UNIQUE (root, path)) STRICT""",
        "CREATE TABLE holdings (document INTEGER PRIMARY KEY, file INTEGER NOT NULL) STRICT",
        "CREATE INDEX holdings_file ON holdings (file)",
        # Keys of documents are used again, so nothing may be left that names a document which is gone.
        """CREATE TRIGGER documents_gone AFTER DELETE ON documents BEGIN
            DELETE FROM holdings WHERE document = OLD.key; END""",
    ),
)
VERSION = len(_MIGRATIONS)


def connect(path: str) -> apsw.Connection:
    """A connection with our settings."""
    connection: apsw.Connection | None = None
    try:
        connection = apsw.Connection(path)
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute(
            "PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=OFF; PRAGMA trusted_schema=OFF; "
            "PRAGMA cache_size=-64000; PRAGMA journal_size_limit=67108864"
        )
        return connection
    except apsw.Error as error:
        if connection is not None:
            connection.close()
        raise _refusal(error, path) from error


def prepare(path: str, connection: apsw.Connection) -> None:
    """Create or migrate the file, or refuse it."""
    try:
        _refuse_foreign(path, connection)
        if path != MEMORY and _write_ahead(connection) != "wal":
            raise UsageError(f"{path}: this file system cannot hold a write-ahead log. Put the index on a local disk.")
        if connection.pragma("user_version") < VERSION:
            _migrate(path, connection)
    except apsw.Error as error:
        raise _refusal(error, path) from error


def _refusal(error: apsw.Error, path: str) -> Exception:
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return UsageError(
            f"{path} is not a sound index ({error}). It was left untouched: move it away and index again."
        )
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
        return UsageError(
            f"{path}: no index can be opened or made there ({error}). Does its folder exist, and may you write to it?"
        )
    return explained(error, path)


def _write_ahead(connection: apsw.Connection) -> object:
    """While somebody else opens the same new file, SQLite may refuse at once, however long it was told to wait."""
    for _ in range(_TRIES):
        try:
            return connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            time.sleep(_PAUSE)
    return connection.pragma("journal_mode", "wal")


def _refuse_foreign(path: str, connection: apsw.Connection) -> None:
    with connection:  # three looks at one moment: another process may be making the file just now
        application, version = connection.pragma("application_id"), connection.pragma("user_version")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application == APPLICATION_ID:
        if version > VERSION:
            raise UsageError(
                f"{path} was written by a newer clicket (schema {version}, this one knows {VERSION}). "
                "It was left untouched: upgrade clicket, or index again under another path."
            )
    elif application != 0 or version != 0 or tables:
        raise UsageError(
            f"{path} is a SQLite database, and no index. It was left untouched: choose another path for the index."
        )


def _migrate(path: str, connection: apsw.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while we waited for the lock.
        version = connection.pragma("user_version")
        for number, statements in enumerate(_MIGRATIONS[version:], start=version + 1):
            for statement in statements:
                connection.execute(statement)
            connection.pragma("user_version", number)
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    if path == MEMORY:
        return
    for suffix in ("", "-wal", "-shm"):
        file = Path(f"{path}{suffix}")
        if version == 0 and file.exists():
            os.chmod(file, 0o600)


def explained(error: apsw.Error, path: str) -> StoreUnavailable:
    """What went wrong in a file that was sound when it was opened, and what to do."""
    if isinstance(error, apsw.BusyError):
        hint = "Another process has been writing to it all the time; try again."
    elif isinstance(error, apsw.CorruptError | apsw.NotADBError):
        hint = "It was damaged: move it away and index again."
    elif isinstance(error, apsw.FullError | apsw.IOError):
        hint = "Nothing was changed; is the disk full, or gone?"
    else:
        hint = "Nothing was changed."
    return StoreUnavailable(f"the index {path}: {error}. {hint}", path=path)
