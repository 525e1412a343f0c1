"""The SQL tables of an index, and the errors for files that are no index or fail.

Posting lists are over terms of `clicket.model.text`; the texts are stored once, in `documents`. Texts are stored as bytes, so that a
lone surrogate or a NUL is returned as it was given.
"""

from __future__ import annotations

import apsw

from clicket.errors import StoreUnavailable, UsageError
from clicket.system.sqlite_file import MEMORY, Unusable
from clicket.system.sqlite_file import connect as connect_file
from clicket.system.sqlite_file import prepare as prepare_file

__all__ = ["APPLICATION_ID", "MEMORY", "VERSION", "connect", "prepare", "store_error"]

APPLICATION_ID = 0x434C4B49  # "CLKI"
_BUSY = 30.0
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE documents (
            key INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, title BLOB NOT NULL, text BLOB NOT NULL, url BLOB NOT NULL,
            source BLOB NOT NULL, hash BLOB NOT NULL, page BLOB NOT NULL) STRICT""",
        "CREATE INDEX documents_ids ON documents (key, id)",  # an id is read without the page of its text
        # Keys of passages are reused, so that lists by key stay as short as the index.
        """CREATE TABLE passages (
            key INTEGER PRIMARY KEY, document INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
            length INTEGER NOT NULL, headings BLOB NOT NULL, terms INTEGER NOT NULL) STRICT""",
        "CREATE INDEX passages_document ON passages (document)",
        "CREATE TABLE free (key INTEGER PRIMARY KEY) STRICT",
        # Posting lists are read as they are, many times faster than FTS5 lists them; see `list_writer`. `bits`: of blocks of long lists.
        """CREATE TABLE posting_lists (
            key INTEGER PRIMARY KEY, term TEXT NOT NULL, block INTEGER NOT NULL, size INTEGER NOT NULL, entries BLOB NOT NULL,
            bits BLOB) STRICT""",
        # The number of passages with a term is read from here, without the lists.
        "CREATE INDEX posting_lists_term ON posting_lists (term, block, size)",
        """CREATE TABLE names (
            name TEXT NOT NULL, rank INTEGER NOT NULL, document INTEGER NOT NULL,
            PRIMARY KEY (name, rank, document)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX names_document ON names (document, rank)",
        "CREATE TABLE vectors (passage INTEGER PRIMARY KEY, vector BLOB NOT NULL) STRICT",
        """CREATE TABLE totals (
            documents INTEGER NOT NULL, passages INTEGER NOT NULL, length INTEGER NOT NULL, space TEXT NOT NULL,
            dimensions INTEGER NOT NULL) STRICT""",
        "INSERT INTO totals VALUES (0, 0, 0, '', 0)",
        # Indexed folders, their files, and the documents made of each file. Paths are bytes, as the system gives them.
        """CREATE TABLE roots (
            key INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, options TEXT NOT NULL, indexed_at REAL NOT NULL) STRICT""",
        """CREATE TABLE files (
            key INTEGER PRIMARY KEY, root INTEGER NOT NULL, path BLOB NOT NULL, size INTEGER NOT NULL, changed INTEGER NOT NULL,
            touched INTEGER NOT NULL, hash BLOB NOT NULL, reader INTEGER NOT NULL, reason TEXT NOT NULL,
            UNIQUE (root, path)) STRICT""",
        "CREATE TABLE holdings (document INTEGER PRIMARY KEY, file INTEGER NOT NULL) STRICT",
        "CREATE INDEX holdings_file ON holdings (file)",
        # Keys of documents are reused, so no row may refer to a deleted document.
        """CREATE TRIGGER documents_gone AFTER DELETE ON documents BEGIN
            DELETE FROM holdings WHERE document = OLD.key; END""",
    ),
)
VERSION = len(_MIGRATIONS)


_ADVICE = {
    "damaged": "move it away and index again.",
    "foreign": "choose another path for the index.",
    "newer": "upgrade clicket, or index again under another path.",
    "unknown": "index again under another path.",
}


def connect(path: str) -> apsw.Connection:
    """A connection with the settings of an index. Raises `UsageError` when the file cannot be opened."""
    try:
        return connect_file(
            path,
            busy=_BUSY,
            settings="PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64000; PRAGMA journal_size_limit=67108864",
        )
    except apsw.Error as error:
        raise _open_error(error, path) from error


def prepare(path: str, connection: apsw.Connection) -> None:
    """Create or migrate the file. Raises `UsageError` when it is not an index."""
    try:
        prepare_file(path, connection, APPLICATION_ID, _MIGRATIONS)
    except Unusable as refused:
        if refused.reason == "no_log":
            raise UsageError(f"{path}: {refused}. Put the index on a local disk.") from refused
        what = {"damaged": f"is not a sound index ({refused})", "foreign": "is a SQLite database, and no index"}
        text = what.get(refused.reason, str(refused))
        raise UsageError(f"{path} {text}. It was left untouched: {_ADVICE[refused.reason]}") from refused
    except apsw.Error as error:
        raise _open_error(error, path) from error


def _open_error(error: apsw.Error, path: str) -> Exception:
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return UsageError(f"{path} is not a sound index ({error}). It was left untouched: {_ADVICE['damaged']}")
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
        return UsageError(
            f"{path}: no index can be opened or made there ({error}). Does its folder exist, and may you write to it?"
        )
    return store_error(error, path)


def store_error(error: apsw.Error, path: str) -> StoreUnavailable:
    """The error for a file that fails after it was opened, with advice."""
    if isinstance(error, apsw.BusyError):
        hint = "Another process was writing to it for a long time; try again."
    elif isinstance(error, apsw.CorruptError | apsw.NotADBError):
        hint = "It was damaged: move it away and index again."
    elif isinstance(error, apsw.FullError | apsw.IOError):
        hint = "Nothing was changed; is the disk full, or gone?"
    else:
        hint = "Nothing was changed."
    return StoreUnavailable(f"the index {path}: {error}. {hint}", path=path)
