"""After a failed fsync of a checkpoint, the log keeps everything until the file is opened again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from clicket.stores.sqlite.checkpoint import Checkpointer, end_old_log
from clicket.system.bridge import ThreadPool


class FailingSync:
    """A connection whose checkpoint fails as one whose fsync returned EIO does."""

    def __init__(self) -> None:
        self.asked = 0

    def wal_checkpoint(self, **_: Any) -> tuple[int, int]:
        self.asked += 1
        error = apsw.IOError("disk I/O error")
        error.extendedresult = apsw.SQLITE_IOERR_FSYNC  # type: ignore[attr-defined]
        raise error


def connection_to(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.wal_autocheckpoint(0)
    return connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.db"


@pytest.fixture
def writing(path: Path) -> Iterator[apsw.Connection]:
    connection = connection_to(path)
    connection.execute("CREATE TABLE t(x); INSERT INTO t VALUES (1)")
    yield connection
    connection.close()


def log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


@pytest.fixture
def failed(path: Path, writing: apsw.Connection) -> Iterator[tuple[Checkpointer, FailingSync]]:
    thread_pool, failing = ThreadPool(1, "test"), FailingSync()
    checkpointer = Checkpointer(path, thread_pool)
    with pytest.raises(apsw.IOError):
        checkpointer.copy(failing)  # type: ignore[arg-type]
    yield checkpointer, failing
    thread_pool.close()


def test_no_connection_starts_the_log_anew(
    path: Path, writing: apsw.Connection, failed: tuple[Checkpointer, FailingSync]
) -> None:
    other = connection_to(path)
    before, _ = other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    writing.execute("INSERT INTO t VALUES (2)")
    after, _ = other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    assert after > before > 0
    with pytest.raises(apsw.BusyError):
        other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    other.close()


def test_the_process_makes_no_checkpoint_after_it(failed: tuple[Checkpointer, FailingSync]) -> None:
    checkpointer, failing = failed
    checkpointer.copy(failing)  # type: ignore[arg-type]
    checkpointer.start()
    assert not checkpointer.is_running
    assert failing.asked == 1


def test_a_closed_store_leaves_the_log_and_the_next_one_copies_it(
    path: Path, writing: apsw.Connection, failed: tuple[Checkpointer, FailingSync]
) -> None:
    checkpointer, _ = failed
    checkpointer.close_last(writing)
    assert log_of(path).stat().st_size > 0
    again = connection_to(path)
    end_old_log(again)
    assert log_of(path).stat().st_size == 0
    assert again.execute("SELECT x FROM t").get == 1
    again.close()


def test_a_log_that_another_process_writes_is_left_to_it(path: Path, writing: apsw.Connection) -> None:
    reader = connection_to(path)
    reader.execute("BEGIN; SELECT * FROM t").fetchall()
    size = log_of(path).stat().st_size
    mine = connection_to(path)
    end_old_log(mine)
    assert os.path.getsize(log_of(path)) == size > 0
    reader.close()
    mine.close()
