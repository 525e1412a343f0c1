"""The tables of a store and their versions. `clicket.system.sqlite_file` creates, migrates or refuses a file."""

from __future__ import annotations

from pathlib import Path

import apsw

from clicket.errors import StoreUnavailable
from clicket.system.sqlite_file import Unusable
from clicket.system.sqlite_file import connect as connect_file
from clicket.system.sqlite_file import prepare as prepare_file

__all__ = ["APPLICATION_ID", "EVENT_BITS", "KEY_BLOCK", "PERIOD", "VERSION", "connect", "prepare"]

APPLICATION_ID = 0x434C4B54  # "CLKT", in the header of every file of ours
EVENT_BITS = 20
"""A row of events has the number `call << EVENT_BITS | first seq`: one B-tree, read in order, no second index."""

PERIOD = 300
"""Seconds of one row of `call_times`."""
KEY_BLOCK = 4096
"""`call_times.last` is rounded up to a multiple of this, less one: a writer changes it once for this many keys."""
_PAGE_SIZE = 2048
"""A commit copies whole pages into the log, and most commits change a few small rows: smaller pages are less to copy."""
_STATEMENTS = 200
"""apsw counts each row of an `executemany` as an execution: groups of a hundred must not drop the other statements."""
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE owners (
            id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT NOT NULL, boot TEXT NOT NULL, pid INTEGER NOT NULL,
            started TEXT NOT NULL, lease REAL NOT NULL, renewed REAL NOT NULL) STRICT""",
        # Short first and last units of a call are in its own row: a plain call writes no row of events. `last_unit_seq` is the number of
        # the first event in `last_unit`. `queue`: the one of a call without an owner; NULL: the one of its tool's name. `kept`: a call
        # of an agent's turn, which stays as long as its thread, so sweeps do not look at it.
        """CREATE TABLE calls (
            key INTEGER PRIMARY KEY, id TEXT NOT NULL, thread TEXT NOT NULL, caller TEXT NOT NULL,
            tool TEXT NOT NULL, state TEXT NOT NULL, seq INTEGER NOT NULL, fence INTEGER NOT NULL, claims INTEGER NOT NULL,
            owner INTEGER, waiting_for TEXT, signal INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0,
            bytes INTEGER NOT NULL DEFAULT 0, created_at REAL NOT NULL, ended_at REAL,
            first_unit BLOB, last_unit BLOB, last_unit_seq INTEGER, queue TEXT, request_id TEXT, code TEXT, kept INTEGER,
            UNIQUE (id, thread, caller)) STRICT""",
        "CREATE INDEX calls_thread ON calls (thread)",
        "CREATE INDEX calls_tool ON calls (tool)",
        # Active calls are found by this one, completed ones by their key: no call writes into an index of states twice.
        "CREATE INDEX calls_live ON calls (owner) WHERE ended_at IS NULL",
        "CREATE INDEX calls_asking ON calls (waiting_for, key) WHERE waiting_for IS NOT NULL AND ended_at IS NULL",
        "CREATE INDEX calls_ended_badly ON calls (state) WHERE ended_at IS NOT NULL AND state <> 'completed'",
        # Claims go from caller to caller. It has owner and ended_at, which are always NULL in it, so that counting reads no calls.
        """CREATE INDEX calls_queues ON calls (ifnull(queue, tool), caller, priority DESC, key, owner, ended_at)
            WHERE owner IS NULL AND ended_at IS NULL""",
        # What people filter by. A plain call writes into none of these four: it has no request id, no error, and often no caller.
        "CREATE INDEX calls_request ON calls (request_id) WHERE request_id IS NOT NULL",
        "CREATE INDEX calls_code ON calls (code) WHERE code IS NOT NULL",
        "CREATE INDEX calls_tool_ended_badly ON calls (tool, state) WHERE ended_at IS NOT NULL AND state <> 'completed'",
        "CREATE INDEX calls_caller ON calls (caller) WHERE caller <> ''",
        "CREATE INDEX calls_ended ON calls (ended_at, bytes) WHERE ended_at IS NOT NULL AND kept IS NULL",
        # The lowest key of the calls that were made in each period, and a key above which there is none. An index of times would cost
        # every call a write; this costs one a period.
        "CREATE TABLE call_times (period INTEGER PRIMARY KEY, key INTEGER NOT NULL, last INTEGER NOT NULL) STRICT",
        "CREATE TABLE events (row INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT",
        """CREATE TABLE artifacts (
            call INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (call, name)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX artifacts_name ON artifacts (name)",
        "CREATE TABLE pins (name TEXT NOT NULL PRIMARY KEY, until REAL NOT NULL) STRICT, WITHOUT ROWID",
        "CREATE INDEX pins_until ON pins (until)",
        """CREATE TABLE slots (
            name TEXT NOT NULL, owner INTEGER NOT NULL, held INTEGER NOT NULL,
            PRIMARY KEY (name, owner)) STRICT, WITHOUT ROWID""",
        "CREATE TABLE buckets (name TEXT PRIMARY KEY, boot TEXT NOT NULL, full_at REAL NOT NULL) STRICT, WITHOUT ROWID",
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
        # Failures in a row are of one version of the tool.
        """CREATE TABLE tool_health (
            caller TEXT NOT NULL, thread TEXT NOT NULL, tool TEXT NOT NULL, version INTEGER NOT NULL,
            completions INTEGER NOT NULL, failures INTEGER NOT NULL, consecutive_failures INTEGER NOT NULL,
            first_success_at REAL, last_success_at REAL, last_failure_at REAL, last_error TEXT NOT NULL,
            status TEXT, reason TEXT NOT NULL DEFAULT '', by TEXT NOT NULL DEFAULT '',
            announced TEXT NOT NULL DEFAULT 'available', updated_at REAL NOT NULL, tool_version TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (caller, thread, tool)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE figures (
            caller TEXT NOT NULL, tool TEXT NOT NULL, outcome TEXT NOT NULL, error TEXT NOT NULL, bucket INTEGER NOT NULL,
            count INTEGER NOT NULL, seconds REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL,
            PRIMARY KEY (caller, tool, outcome, error, bucket)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE documents (
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
)
"""The statements of each version, in order. The first makes an empty file a store."""
VERSION = len(_MIGRATIONS)


_ADVICE = {
    "damaged": "restore it from a backup, or move it away and start with a new one.",
    "foreign": "choose another path for the store.",
    "newer": "upgrade clicket, or use another store.",
    "unknown": "open it with the clicket that wrote it, or use another store.",
}


def connect(path: Path, *, busy: float, synchronous: str, create: bool = True) -> apsw.Connection:
    """A connection with the settings of a store. It never checkpoints by itself: the store does, outside of commits."""
    settings = f"PRAGMA synchronous={synchronous}"
    connection = connect_file(str(path), busy=busy, settings=settings, create=create, statements=_STATEMENTS)
    connection.wal_autocheckpoint(0)
    return connection


def prepare(path: Path, connection: apsw.Connection) -> None:
    """Create or migrate the file, or refuse it."""
    try:
        prepare_file(str(path), connection, APPLICATION_ID, _MIGRATIONS, page_size=_PAGE_SIZE, gives_back=True)
    except Unusable as refused:
        if refused.reason == "no_log":
            text = f"{path}: {refused}. Put the store on a local disk, or use another store."
        else:
            what = f"is not a sound SQLite database ({refused})" if refused.reason == "damaged" else str(refused)
            text = f"{path} {what}. It was left untouched: {_ADVICE[refused.reason]}"
        raise StoreUnavailable(text, path=str(path)) from refused
