"""PostgreSQL through libpq, which `psycopg` brings: one round trip for a group of appends, messages between processes.

- `store`: `PostgresStore`
- `writer`, `outcome_stats`: appends, a group of them in one function call; what outcomes add to tool health and stats
- `membership`: this process as an owner: joining, renewing its lease
- `ownership`: claims and shared slots
- `queues`: calls that have no owner, counted by their queue; rates
- `connection`, `pool`, `address`: one connection on the event loop, a few of them, the server's address
- `channel`: NOTIFY as the carrier of messages
- `calls`: rows as calls, and filters
- `records`, `cache`, `artifacts`: tool health, stats, documents, the audit log; cached results; artifacts
- `retention`: removal of ended calls
- `schema`, `migrations/`, `functions/`: tables and their versions, and the functions of the newest version
"""

from __future__ import annotations

from clicket.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
