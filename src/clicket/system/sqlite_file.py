"""How clicket opens a SQLite file of its own: create it, migrate it, or refuse it and leave it as it is.

A file is ours if its header has our application id. Its `user_version` is the number of migrations that were applied.
"""

from __future__ import annotations

import contextlib
import os
import time
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal

import apsw

from clicket.errors import UsageError
from clicket.system.private_files import create as create_private

__all__ = ["MEMORY", "Migrations", "Unusable", "connect", "prepare"]

MEMORY = ":memory:"
Migrations = tuple[tuple[str, ...], ...]
"""The statements of each version, in order. The first version makes an empty file one of ours."""

_TRIES, _PAUSE = 100, 0.02
_inherited: set[str] = set()
"""Files that the parent process had open when it forked this one."""


def _note_inherited() -> None:
    _inherited.update(os.path.realpath(each.filename) for each in apsw.connections() if each.filename)


if hasattr(os, "register_at_fork"):  # Windows cannot fork
    os.register_at_fork(after_in_child=_note_inherited)


class Unusable(Exception):
    """Why a file was refused. It was not changed."""

    def __init__(self, reason: Literal["damaged", "foreign", "newer", "no_log", "unknown"], text: str) -> None:
        super().__init__(text)
        self.reason = reason


def connect(path: str, *, busy: float, settings: str, create: bool = True, statements: int = 100) -> apsw.Connection:
    """A connection that waits up to `busy` seconds for locks. `settings`: PRAGMA statements. `statements`: after how many executions
    a prepared statement that was not used again is dropped. A file that is made here, and the logs that SQLite makes beside it, are
    their owner's alone from the first moment. Raises `UsageError` for a file that the parent process had open when it forked this one:
    SQLite would count the parent's locks as held here, and one of the two could damage the file."""
    if _inherited and os.path.realpath(path) in _inherited:
        raise UsageError(
            f"{path} was open in the process from which this one was forked, and SQLite's locks do not survive a fork. "
            "Fork before you open it, or start the process with multiprocessing.get_context('spawn')."
        )
    if create and path != MEMORY:
        with contextlib.suppress(OSError):  # SQLite says what is wrong
            create_private(Path(path))
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(path, flags=flags, statementcachesize=statements)
    try:
        connection.set_busy_timeout(int(busy * 1000))
        connection.execute(f"PRAGMA foreign_keys=OFF; PRAGMA trusted_schema=OFF; {settings}")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(
    path: str,
    connection: apsw.Connection,
    application_id: int,
    migrations: Migrations,
    *,
    page_size: int = 4096,
    gives_back: bool = False,
) -> None:
    """Create or migrate the file. `page_size` and `gives_back` (`PRAGMA incremental_vacuum` returns free pages to the disk) are for new
    ones. Raises `Unusable`, or an `apsw.Error` that is not about the file's content."""
    try:
        _refuse_foreign(connection, application_id, migrations)
        if path != MEMORY:
            connection.execute(f"PRAGMA page_size={page_size}")  # a file that has pages keeps their size
            # The header of a file that has pages would be written each time.
            if gives_back and connection.pragma("page_count") == 0:
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            if _write_ahead(connection) != "wal":
                raise Unusable("no_log", "this file system cannot hold a write-ahead log")
        if connection.pragma("user_version") < len(migrations):
            _migrate(connection, application_id, migrations)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise Unusable("damaged", str(error)) from error


def _write_ahead(connection: apsw.Connection) -> object:
    """While another process opens the same new or crashed file, SQLite may refuse at once, whatever its busy timeout is."""
    for _ in range(_TRIES):
        try:
            return connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            time.sleep(_PAUSE)
    return connection.pragma("journal_mode", "wal")


def _refuse_foreign(connection: apsw.Connection, application_id: int, migrations: Migrations) -> None:
    with connection:  # one transaction for all three reads: another process may be creating the file at this moment
        application, version = connection.pragma("application_id"), connection.pragma("user_version")
        found = _names(connection)
    if application == application_id:
        if version > len(migrations):
            text = f"was written by a newer clicket (schema {version}, this one knows {len(migrations)})"
            raise Unusable("newer", text)
        if version < 1 or not _names_of(migrations[:version]) <= found:
            raise Unusable("unknown", f"says schema {version}, but has other tables than that")
    elif application != 0 or version != 0 or found:
        raise Unusable("foreign", "is a SQLite database of another program")


def _names(connection: apsw.Connection) -> set[str]:
    """Of tables, indexes and triggers."""
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}


@cache
def _names_of(migrations: Migrations) -> set[str]:
    with contextlib.closing(apsw.Connection(MEMORY)) as made:
        for statement in chain.from_iterable(migrations):
            made.execute(statement)
        return _names(made)


def _migrate(connection: apsw.Connection, application_id: int, migrations: Migrations) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated the file while this one waited for the lock.
        version = connection.pragma("user_version")
        for statement in chain.from_iterable(migrations[version:]):
            connection.execute(statement)
        connection.pragma("user_version", max(version, len(migrations)))
        connection.pragma("application_id", application_id)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
