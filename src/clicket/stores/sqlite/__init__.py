"""SQLite through apsw, whose bundled SQLite carries the fix for the WAL-reset bug.

- `store`: `SqliteStore`
- `writer`, `appends`: appends grouped into transactions; the statements of one append. A late append also renews the lease
- `owners`: registering and renewing owners, claims, shared slots
- `queues`: calls that have no owner, and rates of tools
- `rows`, `listing`: rows as calls; filters and their order
- `records`, `cache`: tool health, stats, documents, the audit log; cached results
- `files`: artifacts as files
- `retention`, `sweeps`: removal of ended calls; of what breaks a bound, in steps
- `schema`: tables and their versions
- `checkpoint`: copies the write-ahead log back into the database
- `open_files`, `failures`: files that were removed or replaced; errors of SQLite, with advice
"""

from __future__ import annotations

from clicket.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
