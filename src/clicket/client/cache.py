"""The cache of a server."""

from __future__ import annotations

from clicket.client.connection import Connection
from clicket.model.ports import CacheStats
from clicket.runtime.views.cache import CachePage, checked_age

__all__ = ["Cache"]


class Cache:
    """The cached results of the server's store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def stats(self) -> CacheStats:
        return await self._connection.get("/cache/stats", CacheStats)

    async def list(self, *, tag: str | None = None, limit: int = 100, cursor: str | None = None) -> CachePage:
        """Cached results without their bodies, in the order in which they expire; needs the scope `admin`."""
        return await self._connection.get(
            "/cache/items", CachePage, query={"tag": tag, "limit": limit, "cursor": cursor}
        )

    async def clear(self, tag: str | None = None, *, max_age: float | None = None) -> int:
        """Remove the results that carry a tag (`tool:NAME`, or one of the tool's own), or all; returns how many.

        `max_age`: only those that are older than this many seconds.
        """
        query = {"tag": tag, "max_age": None if max_age is None else checked_age(max_age)}
        return await self._connection.read_field("DELETE", "/cache", "removed", int, query=query)
