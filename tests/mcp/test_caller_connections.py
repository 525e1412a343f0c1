"""Connections of callers: at most so many are kept for callers without a call, and none is closed while a call has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from tests.kit.waiting import eventually

from clicket.mcp.caller_connections import Bearer, CallerConnection, CallerConnections

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


async def test_a_connection_that_is_borrowed_while_another_one_is_closed_stays_open() -> None:
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
        for caller in "abc":
            group.create_task(call(caller, first))
        await eventually(lambda: sorted(server.open) == ["a", "b", "c"])
        first.set()  # now one of them may stay, and two are closed
        await eventually(lambda: len(server.closing) == 2)
        old = dict(kept)
        [idle] = set(server.open) - set(server.closing)
        for caller in "abc":  # all come back while those two are being closed
            group.create_task(call(caller, second))
        await eventually(lambda: all(kept[caller] is not old[caller] for caller in server.closing))
        assert kept[idle] is old[idle], "the one that was kept is used again"
        server.may_close.set()
        await eventually(lambda: all(used.connection.is_open for used in kept.values()))
        assert len(server.closing) == 2
        second.set()
    assert sum(used.connection.is_open for used in kept.values()) == 1
    await connections.close()
    assert server.open == []
