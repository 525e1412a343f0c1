"""The tables of a store and their versions. `clicket.sqlite_file` creates, migrates or refuses a file."""

from __future__ import annotations

from pathlib import Path

import apsw

from clicket.errors import StoreUnavailable
from clicket.sqlite_file import Unusable
from clicket.sqlite_file import connect as connect_file
from clicket.sqlite_file import prepare as prepare_file

__all__ = ["APPLICATION_ID", "EVENT_BITS", "KEY_BLOCK", "PERIOD", "VERSION", "connect", "prepare"]

APPLICATION_ID = 0x434C4B54  # "CLKT", in the header of every file of ours
EVENT_BITS = 20
"""A row of events has the number `call << EVENT_BITS | first seq`: one B-tree, read in order, no second index."""

PERIOD = 300
"""Seconds of one row of `call_times`."""
KEY_BLOCK = 4096
"""`call_times.last` is rounded up to a multiple of this, less one: a writer changes it once for so many keys."""
_PAGE_SIZE = 2048
"""A commit copies whole pages into the log, and most commits change a few small rows: smaller pages are less to copy."""
_STATEMENTS = 200
"""apsw counts each row of an `executemany` as an execution: groups of a hundred must not drop the other statements."""
_UNITS = f"""SELECT first_unit AS unit, 0 AS row UNION ALL SELECT last_unit, 1 << 62
    UNION ALL SELECT body, row FROM events WHERE row > calls.key << {EVENT_BITS} AND row < (calls.key + 1) << {EVENT_BITS}"""  # noqa: S608  # constants
_JSON_UNITS = f"SELECT CAST(unit AS TEXT) AS unit, row FROM ({_UNITS}) WHERE json_valid(CAST(unit AS TEXT))"  # noqa: S608  # constants
_OLD_REQUEST_ID = f"""(SELECT nullif(CASE json_extract(unit, '$[0]') WHEN 's' THEN json_extract(unit, '$[1].request_id')
    ELSE json_extract(unit, '$[0][4].request_id') END, '') FROM ({_JSON_UNITS}) ORDER BY row LIMIT 1)"""  # noqa: S608  # constants
_OLD_CODE = f"""(SELECT json_extract(event.value, '$[4].error.code') FROM ({_JSON_UNITS}), json_each(unit) AS event
    WHERE event.type = 'array' AND json_extract(event.value, '$[3]') = calls.state
    AND json_extract(event.value, '$[4].error.code') IS NOT NULL ORDER BY row, event.key LIMIT 1)"""  # noqa: S608  # constants
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
    (
        # Short first and last units of a call are in its own row: a plain call writes no row of events. `last_unit_seq` is the
        # number of the first event in `last_unit`.
        "ALTER TABLE calls ADD COLUMN first_unit BLOB",
        "ALTER TABLE calls ADD COLUMN last_unit BLOB",
        "ALTER TABLE calls ADD COLUMN last_unit_seq INTEGER",
        # Every call wrote into the old index twice. Active calls are found by calls_live, completed ones by their key.
        "DROP INDEX calls_state",
        "CREATE INDEX calls_ended_badly ON calls (state) WHERE ended_at IS NOT NULL AND state <> 'completed'",
        "ALTER TABLE standings RENAME TO tool_health",
        "ALTER TABLE papers RENAME TO documents",
    ),
    (
        # Failures in a row are of one version of a tool. Those that are on record may be deaths of a host: they count no more.
        "ALTER TABLE tool_health ADD COLUMN tool_version TEXT NOT NULL DEFAULT ''",
    ),
    (
        # The lowest key of the calls that were made in each period. An index of times would cost every call a write; this costs
        # one write a period.
        "CREATE TABLE call_times (period INTEGER PRIMARY KEY, key INTEGER NOT NULL) STRICT",
        "INSERT INTO call_times SELECT CAST(created_at / 300 AS INTEGER), min(key) FROM calls GROUP BY 1",
    ),
    (
        # The queue of a call without an owner; NULL: the one of its tool's name. Claims go from caller to caller by the index. It has
        # owner and ended_at, which are always NULL in it, so that counting reads no calls.
        "ALTER TABLE calls ADD COLUMN queue TEXT",
        "DROP INDEX calls_waiting",
        """CREATE INDEX calls_queues ON calls (ifnull(queue, tool), caller, priority DESC, key, owner, ended_at)
            WHERE owner IS NULL AND ended_at IS NULL""",
        "CREATE TABLE buckets (name TEXT PRIMARY KEY, boot TEXT NOT NULL, full_at REAL NOT NULL) STRICT, WITHOUT ROWID",
    ),
    (
        # What people filter by. A plain call writes into none of these indexes: it has no request id, no error, and often no caller.
        "ALTER TABLE calls ADD COLUMN request_id TEXT",
        "ALTER TABLE calls ADD COLUMN code TEXT",
        f"UPDATE calls SET request_id = {_OLD_REQUEST_ID}",  # noqa: S608  # constants, as the next ones
        f"UPDATE calls SET code = {_OLD_CODE} WHERE ended_at IS NOT NULL AND state <> 'completed'",  # noqa: S608
        "CREATE INDEX calls_request ON calls (request_id) WHERE request_id IS NOT NULL",
        "CREATE INDEX calls_code ON calls (code) WHERE code IS NOT NULL",
        "CREATE INDEX calls_tool_ended_badly ON calls (tool, state) WHERE ended_at IS NOT NULL AND state <> 'completed'",
        "CREATE INDEX calls_caller ON calls (caller) WHERE caller <> ''",
        # No call of a period has a key above `last`. The default is for processes of earlier versions, which do not know the column.
        "ALTER TABLE call_times ADD COLUMN last INTEGER NOT NULL DEFAULT 4611686018427387904",
        "DELETE FROM call_times",
        f"""INSERT INTO call_times SELECT CAST(created_at / {PERIOD} AS INTEGER), min(key), max(key) | {KEY_BLOCK - 1}
            FROM calls GROUP BY 1""",  # noqa: S608
    ),
    (
        # Calls of an agent's turns that stay as long as their thread: sweeps do not look at them.
        "ALTER TABLE calls ADD COLUMN kept INTEGER",
        "DROP INDEX calls_ended",
        "CREATE INDEX calls_ended ON calls (ended_at, bytes) WHERE ended_at IS NOT NULL AND kept IS NULL",
    ),
)
_TABLES: tuple[str, ...] = (
    """CREATE TABLE owners (
        id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT NOT NULL, boot TEXT NOT NULL, pid INTEGER NOT NULL,
        started TEXT NOT NULL, lease REAL NOT NULL, renewed REAL NOT NULL) STRICT""",
    """CREATE TABLE "calls" (
        key INTEGER PRIMARY KEY, id TEXT NOT NULL, thread TEXT NOT NULL, caller TEXT NOT NULL,
        tool TEXT NOT NULL, state TEXT NOT NULL, seq INTEGER NOT NULL, fence INTEGER NOT NULL, claims INTEGER NOT NULL,
        owner INTEGER, waiting_for TEXT, request INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0, created_at REAL NOT NULL, ended_at REAL,
        first_unit BLOB, last_unit BLOB, last_unit_seq INTEGER, queue TEXT, request_id TEXT, code TEXT, kept INTEGER,
        UNIQUE (id, thread, caller)) STRICT""",
    "CREATE INDEX calls_thread ON calls (thread)",
    "CREATE INDEX calls_tool ON calls (tool)",
    "CREATE INDEX calls_live ON calls (owner) WHERE ended_at IS NULL",
    "CREATE INDEX calls_asking ON calls (waiting_for, key) WHERE waiting_for IS NOT NULL AND ended_at IS NULL",
    "CREATE INDEX calls_ended_badly ON calls (state) WHERE ended_at IS NOT NULL AND state <> 'completed'",
    """CREATE INDEX calls_queues ON calls (ifnull(queue, tool), caller, priority DESC, key, owner, ended_at)
        WHERE owner IS NULL AND ended_at IS NULL""",
    "CREATE INDEX calls_request ON calls (request_id) WHERE request_id IS NOT NULL",
    "CREATE INDEX calls_code ON calls (code) WHERE code IS NOT NULL",
    "CREATE INDEX calls_tool_ended_badly ON calls (tool, state) WHERE ended_at IS NOT NULL AND state <> 'completed'",
    "CREATE INDEX calls_caller ON calls (caller) WHERE caller <> ''",
    "CREATE INDEX calls_ended ON calls (ended_at, bytes) WHERE ended_at IS NOT NULL AND kept IS NULL",
    """CREATE TABLE call_times (period INTEGER PRIMARY KEY, key INTEGER NOT NULL,
        last INTEGER NOT NULL DEFAULT 4611686018427387904) STRICT""",
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
    """CREATE TABLE "tool_health" (
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
    """CREATE TABLE "documents" (
        kind TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, updated_at REAL NOT NULL, body BLOB NOT NULL,
        UNIQUE (kind, key)) STRICT""",
    "CREATE TABLE audit (number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, body BLOB NOT NULL) STRICT",
    """CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN
        SELECT RAISE(ABORT, 'the audit log only grows'); END""",
    """CREATE TRIGGER audit_keeps BEFORE DELETE ON audit BEGIN
        SELECT RAISE(ABORT, 'the audit log only grows'); END""",
    """CREATE TRIGGER audit_grows BEFORE INSERT ON audit WHEN NEW.number IN (SELECT number FROM audit) BEGIN
        SELECT RAISE(ABORT, 'the audit log only grows'); END""",
)
"""What all migrations together make of an empty file. A new store is made of these: that takes half the time, and here is what it
looks like today. Why a column or an index is there, its migration says. A new migration is added to both."""
VERSION = len(_MIGRATIONS)


_ADVICE = {
    "damaged": "restore it from a backup, or move it away and start with a new one.",
    "foreign": "choose another path for the store.",
    "newer": "upgrade clicket, or use another store.",
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
        prepare_file(str(path), connection, APPLICATION_ID, _MIGRATIONS, _TABLES, page_size=_PAGE_SIZE, gives_back=True)
    except Unusable as refused:
        if refused.reason == "no_log":
            text = f"{path}: {refused}. Put the store on a local disk, or use another store."
        else:
            what = f"is not a sound SQLite database ({refused})" if refused.reason == "damaged" else str(refused)
            text = f"{path} {what}. It was left untouched: {_ADVICE[refused.reason]}"
        raise StoreUnavailable(text, path=str(path)) from refused
