"""NOTIFY as the carrier of messages: sent beside the commit and never in it, received on a connection of its own.

A commit that notifies holds a lock of the whole server until it is on the disk, so messages go out afterwards, in a transaction that
waits for no disk: from here, or, if they are urgent, by the statement that follows the append on its own connection. Each process
listens to a channel for all and to one of its own. The server wakes every listening connection of the database at each NOTIFY, whatever
its channel: with many workers a bus costs it less.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from clicket.stores.bus import OnText
from clicket.stores.postgres.address import quoted
from clicket.stores.postgres.connection import Connection, Refused
from clicket.stores.postgres.pool import Server
from clicket.stores.remote import Lost

__all__ = ["NotifyCarrier"]

logger = logging.getLogger("clicket.stores.postgres")

_SEND = "SELECT pg_notify(n.channel, n.text) FROM unnest($1::text[], $2::text[]) AS n(channel, text)"
_PING_EVERY = 15.0  # finds a connection that died without a message
_WAIT_FIRST = 0.1
_WAIT_MOST = 5.0


class NotifyCarrier:
    name = "store"
    max_size = 7_900  # the server takes less than 8,000 bytes

    def __init__(self, server: Server) -> None:
        self._server = server
        self._space = ""
        self._connection: Connection | None = None
        self._lost = asyncio.Event()
        self._sending = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.trouble: str | None = "it is not connected yet"

    def start(self, space: str, me: int, on_text: OnText) -> None:
        self._space = space
        channels = {self.channel(to): to for to in (0, me)}

        def on_notification(channel: str, text: str) -> None:
            if channel in channels:
                on_text(channels[channel], text.encode())

        self._task = asyncio.get_running_loop().create_task(
            self._work(list(channels), on_notification), name="clicket-postgres-bus"
        )

    def channel(self, to: int) -> str:
        """The name of the channel of a process, or of all (0)."""
        return f"clicket {self._space} {to}" if to else f"clicket {self._space}"

    async def send(self, messages: Sequence[tuple[int, bytes]]) -> None:
        connection = self._connection
        if connection is None:
            return
        channels = [self.channel(to) for to, _ in messages]
        texts = [text.decode() for _, text in messages]
        with contextlib.suppress(Lost, Refused):
            async with self._sending:
                await connection.run(_SEND, [channels, texts], limit=self._server.limit)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _work(self, channels: Sequence[str], on_notification: Callable[[str, str], None]) -> None:
        delay = _WAIT_FIRST
        while True:
            try:
                await self._listen(channels, on_notification)
                delay = _WAIT_FIRST
            except (Lost, Refused) as error:
                self.trouble = str(error)
                if delay == _WAIT_FIRST:
                    logger.info("%s: no messages for now: %s", self._server.name, error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _WAIT_MOST)

    async def _listen(self, channels: Sequence[str], on_notification: Callable[[str, str], None]) -> None:
        """Listen until the connection is lost."""
        connection = await self._server.connect()
        try:
            connection.on_notification = on_notification
            self._lost.clear()
            connection.left = self._lost.set
            listen = "; ".join(f"LISTEN {quoted(channel)}" for channel in channels)
            await connection.script(f"SET synchronous_commit = off; {listen}", limit=self._server.limit)
            self._connection = connection
            self.trouble = None
            while connection.broken is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PING_EVERY):
                        await self._lost.wait()
                if connection.broken is None:
                    async with self._sending:
                        await connection.run("SELECT 1", limit=self._server.limit)
            raise connection.broken
        finally:
            self._connection = None
            self.trouble = self.trouble or "the connection was lost"
            connection.close()
