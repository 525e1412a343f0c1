"""`Client.schedules`: schedules of the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import msgspec

from clicket.client.connection import Connection, path_segment
from clicket.client.request_body import written_arguments
from clicket.errors import NotFound
from clicket.model import Arguments
from clicket.runtime.schedules import Schedule, ScheduleOptions

__all__ = ["Schedules"]


class Schedules:
    """The same methods as `Runtime.schedules`. `by` is not sent: the key's name is recorded. `caller` is for admins."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(
        self,
        name: str,
        cron: str,
        tool: str,
        arguments: Arguments = None,
        *,
        by: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Make or change a schedule; needs the scope `call`."""
        body: dict[str, Any] = {"cron": cron, "tool": tool, **options}
        if arguments is not None:
            written, wrong = written_arguments(arguments)
            if wrong is not None:
                raise wrong
            body["arguments"] = msgspec.Raw(written)
        return await self._connection.read("PUT", _path(name), Schedule, body=body)

    async def list(self) -> Sequence[Schedule]:
        """Every schedule of the key, or of all keys for an admin, in the order of their names."""
        return await self._connection.read_field("GET", "/schedules", "items", list[Schedule])

    async def get(self, name: str, *, caller: str | None = None) -> Schedule:
        return await self._connection.get(_path(name), Schedule, query={"caller": caller})

    async def next(self, name: str, count: int = 5, *, caller: str | None = None) -> Sequence[float]:
        """The next times, in seconds since the epoch, without jitter."""
        query = {"count": count, "caller": caller}
        return await self._connection.read_field("GET", f"{_path(name)}/next", "times", list[float], query=query)

    async def pause(self, name: str, *, by: str = "", caller: str | None = None) -> Schedule:
        """Let a schedule fire no more until it is resumed."""
        return await self._connection.read("POST", f"{_path(name)}/pause", Schedule, query={"caller": caller})

    async def resume(self, name: str, *, by: str = "", caller: str | None = None) -> Schedule:
        """Let a paused schedule fire again, from the next time on."""
        return await self._connection.read("POST", f"{_path(name)}/resume", Schedule, query={"caller": caller})

    async def remove(self, name: str, *, by: str = "", caller: str | None = None) -> bool:
        """Remove a schedule; its calls stay. False: there is none."""
        try:
            await self._connection.send("DELETE", _path(name), query={"caller": caller})
        except NotFound:
            return False
        return True


def _path(name: str) -> str:
    return f"/schedules/{path_segment(name)}"
