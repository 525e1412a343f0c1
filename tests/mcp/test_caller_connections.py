"""Connections of callers: at most so many are kept for callers without a call, and none is closed while a call has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from tests.kit.waiting import eventually

from clicket.adapters.mcp.caller_connections import Bearer, CallerConnection, CallerConnections

CLIENT: Any = SimpleNamespace(server_capabilities=SimpleNamespace(tools=None), protocol_version="2025-11-25")


class Server:
    """Notes which tokens have a connection. Closing one waits for `may_close`."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.closing: list[str] = []
        self.may_close = asyncio.Event()

    def opener(self, bearer: Bearer) -> Any:
        @asynccontextmanager
        async def connected(_: Any) -> AsyncIterator[Any]:
            token = bearer.token
            self.open.append(token)
            yield CLIENT
            self.closing.append(token)
            await self.may_close.wait()
            self.open.remove(token)

        return connected


async def test_a_connection_is_closed_only_while_no_call_has_it() -> None:
    server = Server()
    connections = CallerConnections("s", "p", server.opener, timeout=5, changed=lambda: None, max_idle=1)
    kept: dict[str, CallerConnection] = {}

    async def call(caller: str, until: asyncio.Event) -> None:
        async with connections.lent(caller, caller) as used:
            kept[caller] = used
            await used.connection.client()
            await until.wait()

    first, second = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for caller, until in (("a", second), ("b", first), ("c", first)):
            group.create_task(call(caller, until))
        await eventually(lambda: sorted(server.open) == ["a", "b", "c"])
        first.set()  # one of b and c may stay; a has a call, though it was used least recently
        await eventually(lambda: server.closing == ["b"])
        old = dict(kept)
        for caller in "bc":  # both come back while the connection of b is being closed
            group.create_task(call(caller, second))
        await eventually(lambda: kept["b"] is not old["b"])
        assert kept["c"] is old["c"], "the one that was kept is used again"
        server.may_close.set()
        await eventually(lambda: sorted(server.open) == ["a", "b", "c"])
        assert all(used.connection.is_open for used in kept.values())
        assert server.closing == ["b"]
        second.set()
    assert sum(used.connection.is_open for used in kept.values()) == 1
    await connections.close()
    assert server.open == []
