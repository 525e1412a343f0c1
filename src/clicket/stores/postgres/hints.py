"""Hints between processes: NOTIFY, sent beside the commit and never in it, received on a connection of its own.

A commit that notifies holds a lock of the whole server until it is on the disk, so hints go out afterwards, in a transaction
that waits for no disk. They may be lost, and are when this connection is down: the engine polls from time to time anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

from clicket.stores.postgres.address import quoted
from clicket.stores.postgres.connection import Connection, Refused
from clicket.stores.postgres.pool import Server
from clicket.stores.remote import Lost

__all__ = ["Hints"]

logger = logging.getLogger("clicket.stores.postgres")

_KINDS = frozenset({"events", "work", "request", "slot", "health"})
_MAX_TEXT = 7_900  # the server takes less than 8,000 bytes
_PING_EVERY = 15.0  # finds a connection that died without a notice
_WAIT_FIRST = 0.1
_WAIT_MOST = 5.0


class Hints:
    """`on_hint(kind, key)` is called on the loop for every hint of every process, this one's too."""

    def __init__(self, server: Server, on_hint: Callable[[str, int], None]) -> None:
        self._server = server
        self._on_hint = on_hint
        self._waiting: dict[tuple[str, int], None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._leaving = False
        self.listening = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work(), name="clicket-postgres-hints")

    async def close(self) -> None:
        """Send what is waiting, if that is quickly done, and leave."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._connection is None or not self._waiting:
            task.cancel()
        self._leaving = True
        self._wake.set()
        await asyncio.wait([task], timeout=min(1.0, self._server.limit))
        task.cancel()
        await asyncio.wait([task])

    def post(self, kind: str, key: int) -> None:
        """Notify the other processes, soon. While the connection is down, hints are dropped."""
        if self._connection is not None:
            self._waiting[kind, key] = None
            self._wake.set()

    async def _work(self) -> None:
        delay = _WAIT_FIRST
        while True:
            try:
                await self._listen()
                if self._leaving:
                    return
                delay = _WAIT_FIRST
            except (Lost, Refused) as error:
                if delay == _WAIT_FIRST:
                    logger.info("%s: no hints for now: %s", self._server.name, error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _WAIT_MOST)

    async def _listen(self) -> None:
        """Listen and send until the connection is lost."""
        connection = await self._server.connect()
        try:
            connection.on_notification = self._on_notification
            connection.left = self._wake.set
            channel = quoted(self._server.address.schema)
            await connection.script(f"SET synchronous_commit = off; LISTEN {channel}", limit=self._server.limit)
            self._connection = connection
            self.listening.set()
            while connection.broken is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PING_EVERY):
                        await self._wake.wait()
                self._wake.clear()
                await self._send(connection, limit=self._server.limit)
                if self._leaving:
                    return
        finally:
            self.listening.clear()
            self._connection = None
            self._waiting.clear()
            connection.close()

    async def _send(self, connection: Connection, *, limit: float) -> None:
        """All that is waiting; or nothing, which asks whether the server is there."""
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            await connection.run("SELECT 1", limit=limit)
        for text in _texts(waiting):
            await connection.run(
                "SELECT pg_notify($1::text, $2::text)", [self._server.address.schema, text], limit=limit
            )

    def _on_notification(self, text: str) -> None:
        for kind, key in _read(text):
            try:
                self._on_hint(kind, key)
            except Exception:
                logger.exception("the follow-up of a hint (%s, %d) failed", kind, key)


def _texts(hints: dict[tuple[str, int], None]) -> Iterator[str]:
    """Hints as `kind key key … kind key …`, in texts that the server takes."""
    parts: list[str] = []
    size, last = 0, ""
    for kind, key in sorted(hints):
        new = [kind, str(key)] if kind != last else [str(key)]
        if size + sum(map(len, new)) + len(new) > _MAX_TEXT:
            yield " ".join(parts)
            parts, size, new = [], 0, [kind, str(key)]
        parts += new
        size += sum(map(len, new)) + len(new)
        last = kind
    if parts:
        yield " ".join(parts)


def _read(text: str) -> Iterator[tuple[str, int]]:
    """Any client may notify: text that is not a hint is ignored."""
    kind = ""
    for part in text.split(" "):
        if part in _KINDS:
            kind = part
        elif kind and part.isascii() and part.isdigit():
            yield kind, int(part)
