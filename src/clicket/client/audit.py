"""`Client.audit`: the audit log of the server. The key needs the scope `admin`."""

from __future__ import annotations

import builtins

from clicket.client.connection import Connection
from clicket.engine.people.audit import AuditEntry

__all__ = ["Audit"]


class Audit:
    """The append-only log of what people and policies decided. The server writes it; a client reads it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, limit: int = 100, before: int | None = None) -> builtins.list[AuditEntry]:
        """Entries, the newest first; `before`: the number of an entry."""
        query = {"limit": limit, "before": before}
        return await self._connection.read_field("GET", "/audit", "items", builtins.list[AuditEntry], query=query)

    async def __call__(self, *, limit: int = 100, before: int | None = None) -> builtins.list[AuditEntry]:
        return await self.list(limit=limit, before=before)
