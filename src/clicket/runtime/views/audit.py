"""`Runtime.audit`: reads the audit log of the store, and adds entries to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clicket.engine.people.audit import AuditEntry, AuditLog, entries
from clicket.errors import PermissionDenied
from clicket.model.ports import Store

__all__ = ["Audit"]


class Audit:
    """The append-only log of what people and policies decided."""

    def __init__(self, log: AuditLog, store: Store, caller: str | None) -> None:
        self._log = log
        self._store = store
        self._caller = caller

    async def list(self, *, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        """Entries, the newest first; `before`: the number of an entry. A runtime for one caller (`acting_for`) may not read the log."""
        if self._caller is not None:
            raise PermissionDenied("the audit log is for the operator of this runtime, not for one of its callers.")
        return await entries(self._store, limit=limit, before=before)

    async def __call__(self, *, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        return await self.list(limit=limit, before=before)

    async def record(self, what: str, *, by: str = "", **details: Any) -> None:
        """Add an entry. `by`: the default is the runtime's caller. `what`: a noun and a past tense, such as `key.created`."""
        await self._log.kept(by or self._caller or "", what, **details)
