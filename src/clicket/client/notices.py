"""`Client.notices`: what the server's webhook endpoints got. The key needs the scope `admin`."""

from __future__ import annotations

from clicket.client.connection import Connection, decoded, path_segment
from clicket.model.notice import Notice, NoticePage

__all__ = ["Notices"]


class Notices:
    """The same methods as `Runtime.notices`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self, *, state: str | None = None, type: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> NoticePage:
        """Notices without their payloads, the newest first; `cursor` of one page fetches the next."""
        query = {"state": state, "type": type, "limit": limit, "cursor": cursor}
        return await self._connection.get("/notices", NoticePage, query=query)

    async def get(self, id: str) -> Notice:
        """One notice, with its payload and its last attempts."""
        return await self._connection.get(f"/notices/{path_segment(id)}", Notice)

    async def replay(self, id: str, *, by: str = "") -> Notice:
        """Send a notice again, under the same id. `by` is not sent: the key's name is recorded."""
        return decoded(await self._connection.send("POST", f"/notices/{path_segment(id)}/replay"), Notice)
