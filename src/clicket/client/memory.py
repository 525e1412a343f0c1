"""`Client.memory`: what agents remember about this key."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.client.connection import Connection, path_segment
from clicket.model.fact import Fact

__all__ = ["Memory"]


class Memory:
    """The same methods as `Runtime.memory`. `by` is not sent: the key's name is recorded. `caller` is for admins."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, caller: str | None = None, agent: str | None = None) -> Sequence[Fact]:
        """The facts: those that all agents read first, then those of single agents."""
        query = {"caller": caller, "agent": agent}
        return await self._connection.read_field("GET", "/memory", "items", list[Fact], query=query)

    async def add(self, text: str, *, caller: str | None = None, agent: str = "", by: str = "") -> Fact:
        """Remember a fact for all agents of the caller, or for one; needs the scope `call`."""
        body = {"text": text, "agent": agent}
        return await self._connection.read("POST", "/memory", Fact, body=body, query={"caller": caller})

    async def edit(self, id: str, text: str, *, caller: str | None = None, by: str = "") -> Fact:
        """Replace the text of a fact."""
        return await self._connection.read("PUT", _path(id), Fact, body={"text": text}, query={"caller": caller})

    async def forget(self, id: str, *, caller: str | None = None, by: str = "") -> Fact:
        """Remove a fact; returns it."""
        return await self._connection.read("DELETE", _path(id), Fact, query={"caller": caller})


def _path(id: str) -> str:
    return f"/memory/{path_segment(id)}"
