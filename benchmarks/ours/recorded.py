"""The rows of a store, inserted again by apsw alone: the upper bound for any store on SQLite.

Tables, indexes and rows are read from a file that the runtime has just written, so the bound follows the schema.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import apsw

__all__ = ["SYNCHRONOUS", "Recorded"]

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}


class Recorded:
    """The schema of a store and the rows of its tables."""

    def __init__(self, path: Path) -> None:
        database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self.page_size = database.pragma("page_size")
        known = list(database.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        own = [(kind, name, sql) for kind, name, sql in known if not name.startswith("sqlite_")]
        self.schema = [sql for kind, _, sql in own if kind == "table"] + [
            sql for kind, _, sql in own if kind == "index"
        ]
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        for _, name, _ in (entry for entry in own if entry[0] == "table"):
            columns = [r[1] for r in database.execute(f'PRAGMA table_xinfo("{name}")') if not r[6]]
            listed = ", ".join(f'"{column}"' for column in columns)
            marks = ", ".join("?" * len(columns))
            self.rows[f'INSERT INTO "{name}" ({listed}) VALUES ({marks})'] = list(
                database.execute(f'SELECT {listed} FROM "{name}"')
            )
        database.close()

    @property
    def count(self) -> int:
        return sum(len(rows) for rows in self.rows.values())

    def insert(self, path: Path, synchronous: str, commits: int) -> float:
        """Seconds to write everything into a new file, in this many commits."""
        database = apsw.Connection(str(path))
        database.execute(f"PRAGMA page_size={self.page_size}")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(f"PRAGMA synchronous={synchronous}")
        for sql in self.schema:
            database.execute(sql)
        parts = [
            [(sql, rows[len(rows) * n // commits : len(rows) * (n + 1) // commits]) for sql, rows in self.rows.items()]
            for n in range(commits)
        ]
        start = perf_counter()
        for part in parts:
            database.execute("BEGIN IMMEDIATE")
            for sql, rows in part:
                if rows:
                    database.executemany(sql, rows)
            database.execute("COMMIT")
        elapsed = perf_counter() - start
        database.close()
        return elapsed
