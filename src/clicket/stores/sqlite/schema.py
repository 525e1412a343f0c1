"""The tables, their versions, and the refusal of every file that is not ours to write.

A file that is corrupt, newer than this program, or made by another is refused by name and left as it is.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import apsw

from clicket.errors import StoreUnavailable

__all__ = ["APPLICATION_ID", "EVENT_BITS", "VERSION", "connect", "prepare"]

APPLICATION_ID = 0x434C4B54  # "CLKT", in the header of every file of ours
EVENT_BITS = 20
"""A row of events has the number `call << EVENT_BITS | first seq`: one B-tree, read in order, no second index."""

_TRIES, _PAUSE = 100, 0.02
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE owners (
            id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT NOT NULL, boot TEXT NOT NULL, pid INTEGER NOT NULL,
            started TEXT NOT NULL, lease REAL NOT NULL, renewed REAL NOT NULL) STRICT""",
        """CREATE TABLE calls (
            key INTEGER PRIMARY KEY, id TEXT NOT NULL, thread TEXT NOT NULL, caller TEXT NOT NULL, tool TEXT NOT NULL,
            state TEXT NOT NULL, seq INTEGER NOT NULL, fence INTEGER NOT NULL, claims INTEGER NOT NULL, owner INTEGER,
            waiting_for TEXT, cancel INTEGER NOT NULL DEFAULT 0, created_at REAL NOT NULL, ended_at REAL,
            UNIQUE (id, thread, caller)) STRICT""",
        "CREATE INDEX calls_thread ON calls (thread)",
        "CREATE INDEX calls_tool ON calls (tool)",
        "CREATE INDEX calls_state ON calls (state)",
        "CREATE INDEX calls_live ON calls (owner) WHERE ended_at IS NULL",
        "CREATE INDEX calls_ended ON calls (ended_at) WHERE ended_at IS NOT NULL",
        "CREATE TABLE events (row INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT",
        """CREATE TABLE artifacts (
            call INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (call, name)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX artifacts_name ON artifacts (name)",
    ),
    (
        """CREATE TABLE calls_2 (
            key INTEGER PRIMARY KEY, id TEXT NOT NULL, thread TEXT NOT NULL, caller TEXT NOT NULL,
            tool TEXT NOT NULL, state TEXT NOT NULL, seq INTEGER NOT NULL, fence INTEGER NOT NULL, claims INTEGER NOT NULL,
            owner INTEGER, waiting_for TEXT, request INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0,
            bytes INTEGER NOT NULL DEFAULT 0, created_at REAL NOT NULL, ended_at REAL,
            UNIQUE (id, thread, caller)) STRICT""",
        """INSERT INTO calls_2 (key, id, thread, caller, tool, state, seq, fence, claims, owner, waiting_for, request,
            created_at, ended_at) SELECT key, id, thread, caller, tool, state, seq, fence, claims, owner, waiting_for,
            cancel, created_at, ended_at FROM calls""",
        "DROP TABLE calls",
        "ALTER TABLE calls_2 RENAME TO calls",
        "CREATE INDEX calls_thread ON calls (thread)",
        "CREATE INDEX calls_tool ON calls (tool)",
        "CREATE INDEX calls_state ON calls (state)",
        "CREATE INDEX calls_live ON calls (owner) WHERE ended_at IS NULL",
        "CREATE INDEX calls_waiting ON calls (priority DESC, key) WHERE owner IS NULL AND ended_at IS NULL",
        "CREATE INDEX calls_ended ON calls (ended_at, bytes) WHERE ended_at IS NOT NULL",
        """CREATE TABLE slots (
            name TEXT NOT NULL, owner INTEGER NOT NULL, held INTEGER NOT NULL,
            PRIMARY KEY (name, owner)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE cache (
            row INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body BLOB NOT NULL, tags TEXT NOT NULL,
            created_at REAL NOT NULL, expires_at REAL NOT NULL, accessed_at REAL NOT NULL,
            access_count INTEGER NOT NULL) STRICT""",
        "CREATE INDEX cache_expires ON cache (expires_at)",
        "CREATE INDEX cache_accessed ON cache (accessed_at)",
        """CREATE TABLE cache_tags (
            tag TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (tag, row)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE cache_totals (
            items INTEGER NOT NULL, bytes INTEGER NOT NULL, hits INTEGER NOT NULL, misses INTEGER NOT NULL,
            evictions INTEGER NOT NULL) STRICT""",
        "INSERT INTO cache_totals VALUES (0, 0, 0, 0, 0)",
    ),
    (
        "CREATE INDEX calls_asking ON calls (waiting_for, key) WHERE waiting_for IS NOT NULL AND ended_at IS NULL",
        """CREATE TABLE standings (
            caller TEXT NOT NULL, thread TEXT NOT NULL, tool TEXT NOT NULL, version INTEGER NOT NULL,
            completions INTEGER NOT NULL, failures INTEGER NOT NULL, consecutive_failures INTEGER NOT NULL,
            first_success_at REAL, last_success_at REAL, last_failure_at REAL, last_error TEXT NOT NULL,
            status TEXT, reason TEXT NOT NULL DEFAULT '', by TEXT NOT NULL DEFAULT '',
            announced TEXT NOT NULL DEFAULT 'available', updated_at REAL NOT NULL,
            PRIMARY KEY (caller, thread, tool)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE figures (
            caller TEXT NOT NULL, tool TEXT NOT NULL, outcome TEXT NOT NULL, error TEXT NOT NULL, bucket INTEGER NOT NULL,
            count INTEGER NOT NULL, seconds REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL,
            PRIMARY KEY (caller, tool, outcome, error, bucket)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE papers (
            kind TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, updated_at REAL NOT NULL, body BLOB NOT NULL,
            UNIQUE (kind, key)) STRICT""",
        "CREATE TABLE audit (number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, body BLOB NOT NULL) STRICT",
        """CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN
            SELECT RAISE(ABORT, 'the audit log only grows'); END""",
        """CREATE TRIGGER audit_keeps BEFORE DELETE ON audit BEGIN
            SELECT RAISE(ABORT, 'the audit log only grows'); END""",
        # INSERT OR REPLACE removes a row without asking the trigger above.
        """CREATE TRIGGER audit_grows BEFORE INSERT ON audit WHEN NEW.number IN (SELECT number FROM audit) BEGIN
            SELECT RAISE(ABORT, 'the audit log only grows'); END""",
    ),
    (
        "CREATE TABLE pins (name TEXT NOT NULL PRIMARY KEY, until REAL NOT NULL) STRICT, WITHOUT ROWID",
        "CREATE INDEX pins_until ON pins (until)",
    ),
)
VERSION = len(_MIGRATIONS)


def connect(path: Path, *, busy: float, synchronous: str, create: bool = True) -> apsw.Connection:
    """A connection with our settings; checkpoints are made by the store, never in the middle of somebody's commit."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(int(busy * 1000))
    connection.execute(f"PRAGMA synchronous={synchronous}; PRAGMA foreign_keys=OFF; PRAGMA trusted_schema=OFF")
    connection.wal_autocheckpoint(0)
    return connection


def _write_ahead(connection: apsw.Connection) -> object:
    """While somebody else opens the same new or crashed file, SQLite may refuse at once, however long it was told to wait."""
    for _ in range(_TRIES):
        try:
            return connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            time.sleep(_PAUSE)
    return connection.pragma("journal_mode", "wal")


def prepare(path: Path, connection: apsw.Connection) -> None:
    """Create or migrate the file, or refuse it."""
    try:
        _refuse_foreign(path, connection)
        if _write_ahead(connection) != "wal":
            raise StoreUnavailable(
                f"{path}: this file system cannot hold a write-ahead log. Put the store on a local disk, or use another store."
            )
        if connection.pragma("user_version") < VERSION:
            _migrate(path, connection)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreUnavailable(
            f"{path} is not a sound SQLite database ({error}). It was left untouched: restore it from a backup, "
            "or move it away and start with a new one.",
            path=str(path),
        ) from error


def _refuse_foreign(path: Path, connection: apsw.Connection) -> None:
    with connection:  # three looks at one moment: another process may be making the file just now
        application, version = connection.pragma("application_id"), connection.pragma("user_version")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application == APPLICATION_ID:
        if version > VERSION:
            raise StoreUnavailable(
                f"{path} was written by a newer clicket (schema {version}, this one knows {VERSION}). "
                "It was left untouched: upgrade clicket, or use another store.",
                path=str(path),
            )
        return
    if application != 0 or version != 0 or tables:
        raise StoreUnavailable(
            f"{path} is a SQLite database of another program. It was left untouched: choose another path for the store.",
            path=str(path),
        )


def _migrate(path: Path, connection: apsw.Connection) -> None:
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
    for suffix in ("", "-wal", "-shm"):
        file = Path(f"{path}{suffix}")
        if version == 0 and file.exists():
            os.chmod(file, 0o600)
