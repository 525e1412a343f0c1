"""A new file gets its tables at once. They are what all migrations, one after another, would have made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from clicket import sqlite_file
from clicket.stores.sqlite import schema

MIGRATIONS = (("CREATE TABLE a (x)",), ("ALTER TABLE a RENAME TO b", "INSERT INTO b VALUES (1)"))
TABLES = ('CREATE TABLE "b" (x)', "INSERT INTO b VALUES (1)", "CREATE TABLE at_once (x)")


@contextmanager
def made(path: Path, *given: Any) -> Iterator[apsw.Connection]:
    with closing(sqlite_file.connect(str(path), busy=1, settings="")) as connection:
        sqlite_file.prepare(str(path), connection, 7, *given)
        yield connection


def names(connection: apsw.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]


def content(connection: apsw.Connection) -> dict[str, Any]:
    """Everything in a file but where it is: the planner prefers indexes by their order, so that counts; spaces do not."""
    objects = connection.execute(
        "SELECT tbl_name, type, name, sql FROM sqlite_schema ORDER BY tbl_name, rowid"
    ).fetchall()
    tables = [name for _, kind, name, _ in objects if kind == "table"]
    return {
        "objects": [(table, kind, name, sql and " ".join(sql.split())) for table, kind, name, sql in objects],
        "columns": {table: connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall() for table in tables},
        "indexes": {table: connection.execute(f'PRAGMA index_list("{table}")').fetchall() for table in tables},
        "rows": {table: connection.execute(f'SELECT * FROM "{table}"').fetchall() for table in tables},
        "numbers": (connection.pragma("application_id"), connection.pragma("user_version")),
    }


def test_both_ways_to_make_a_new_store_are_one(tmp_path: Path) -> None:
    with (
        made(tmp_path / "a", schema._MIGRATIONS) as migrated,
        made(tmp_path / "b", schema._MIGRATIONS, schema._TABLES) as new,
    ):
        assert content(new) == content(migrated)
        assert new.pragma("user_version") == schema.VERSION
        assert new.pragma("integrity_check") == "ok"


def test_only_a_new_file_is_made_at_once(tmp_path: Path) -> None:
    with made(tmp_path / "old", MIGRATIONS[:1]):
        pass
    with made(tmp_path / "old", MIGRATIONS, TABLES) as old, made(tmp_path / "new", MIGRATIONS, TABLES) as new:
        assert (names(old), names(new)) == (["b"], ["at_once", "b"])
        for each in (old, new):
            assert each.execute("SELECT x FROM b").fetchall() == [(1,)]
            assert each.pragma("user_version") == 2
    for name, found in (("old", ["b"]), ("new", ["at_once", "b"])):
        with made(tmp_path / name, MIGRATIONS, TABLES) as again:
            assert names(again) == found
            assert again.execute("SELECT count(*) FROM b").get == 1


def test_a_new_file_whose_tables_fail_stays_empty(tmp_path: Path) -> None:
    with pytest.raises(apsw.SQLError), made(tmp_path / "new", MIGRATIONS, (*TABLES, "no SQL")):
        pass
    with made(tmp_path / "new", MIGRATIONS, TABLES) as again:
        assert names(again) == ["at_once", "b"]
