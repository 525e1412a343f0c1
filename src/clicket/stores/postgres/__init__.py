"""PostgreSQL through libpq, which `psycopg` brings: one round trip for a group of appends, hints between processes."""

from __future__ import annotations

from clicket.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
