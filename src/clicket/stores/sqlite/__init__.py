"""SQLite through apsw, whose bundled SQLite carries the fix for the WAL-reset bug."""

from __future__ import annotations

from clicket.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
