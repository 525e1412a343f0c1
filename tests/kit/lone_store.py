"""A SQLite store as a single call at a time uses it."""

from __future__ import annotations

from clicket.model.ports import Append
from clicket.model.ports.store import Done
from clicket.stores.sqlite.store import SqliteStore

__all__ = ["LoneStore"]


class LoneStore(SqliteStore):
    """Appends are written before `append` returns."""

    def append(self, change: Append, done: Done) -> None:
        change.group = False
        super().append(change, done)
