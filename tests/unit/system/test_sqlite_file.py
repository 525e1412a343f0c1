"""A file of our own: migrations are applied once, one after another, and what is not a file of ours is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from clicket.system import sqlite_file

MIGRATIONS = (
    ("CREATE TABLE a (x)",),
    ("ALTER TABLE a RENAME TO b", "INSERT INTO b VALUES (1)"),
    ("ALTER TABLE b ADD COLUMN y",),
)


@contextmanager
def made(path: Path, migrations: sqlite_file.Migrations) -> Iterator[apsw.Connection]:
    with closing(sqlite_file.connect(str(path), busy=1, settings="")) as connection:
        sqlite_file.prepare(str(path), connection, 7, migrations)
        yield connection


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_file_of_any_version_becomes_one_of_the_newest(tmp_path: Path, version: int) -> None:
    if version:
        with made(tmp_path / "file", MIGRATIONS[:version]):
            pass
    for _ in range(2):
        with made(tmp_path / "file", MIGRATIONS) as file:
            assert file.execute("SELECT x, y FROM b").fetchall() == [(1, None)]
            assert (file.pragma("application_id"), file.pragma("user_version")) == (7, 3)


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    with made(tmp_path / "file", MIGRATIONS[:1]):
        pass
    before = (tmp_path / "file").read_bytes()
    with pytest.raises(apsw.SQLError), made(tmp_path / "file", (*MIGRATIONS[:2], ("CREATE TABLE c (x)", "no SQL"))):
        pass
    assert (tmp_path / "file").read_bytes() == before
    with made(tmp_path / "file", MIGRATIONS) as file:
        assert file.execute("SELECT x FROM b").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("PRAGMA user_version = 4", "newer"),
        ("PRAGMA user_version = 1", "unknown"),  # it has other tables than version 1 makes
        ("PRAGMA user_version = 0", "unknown"),
        ("PRAGMA user_version = -1", "unknown"),
        ("DROP TABLE b", "unknown"),
        ("PRAGMA application_id = 8", "foreign"),
    ],
)
def test_a_file_that_is_not_as_it_says_is_refused_and_left_alone(tmp_path: Path, statement: str, reason: str) -> None:
    with made(tmp_path / "file", MIGRATIONS) as file:
        file.execute(statement)
    before = (tmp_path / "file").read_bytes()
    with pytest.raises(sqlite_file.Unusable) as refused, made(tmp_path / "file", MIGRATIONS):
        pass
    assert refused.value.reason == reason
    assert (tmp_path / "file").read_bytes() == before
