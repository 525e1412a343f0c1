"""`Client.workers`: the workers over the server's store. The key needs the scope `admin`."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.client.connection import Connection, decoded, path_segment
from clicket.model.worker import WorkerInfo

__all__ = ["Workers"]


class Workers:
    """The same methods as `Runtime.workers`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> Sequence[WorkerInfo]:
        """Every worker, the one that started first before the others; for an hour also those that were lost."""
        return await self._connection.read_field("GET", "/workers", "items", list[WorkerInfo])

    async def drain(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker finish what runs there, and take nothing new; a worker process ends then. `by` is not sent: the key's name
        is recorded."""
        return await self._set(id, "drain")

    async def cordon(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker take no new calls."""
        return await self._set(id, "cordon")

    async def uncordon(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker take calls again."""
        return await self._set(id, "uncordon")

    async def _set(self, id: str, action: str) -> WorkerInfo:
        return decoded(await self._connection.send("POST", f"/workers/{path_segment(id)}/{action}"), WorkerInfo)
