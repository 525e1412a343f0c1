"""Receives hints of other processes over a connection of its own. Hints may be lost; the engine polls, too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from clicket.errors import ClicketError
from clicket.stores.redis.connection import Connection
from clicket.stores.redis.session import Session
from clicket.stores.remote import Lost

__all__ = ["Listener"]

logger = logging.getLogger("clicket.stores.redis")

_SILENCE = 10.0
"""Seconds without a message until the server is pinged."""
_WAIT_FIRST = 0.1
_WAIT_MOST = 5.0
_KINDS = frozenset({b"events", b"work", b"request", b"slot", b"health"})


class Listener:
    def __init__(self, session: Session, connection: Connection, on_hint: Callable[[str, int], None]) -> None:
        self._session = session
        self._connection = connection
        self._on_hint = on_hint
        self._channel = f"{session.base}hear".encode()
        self._task = asyncio.get_running_loop().create_task(self._work(), name="clicket-redis-listener")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _work(self) -> None:
        delay = _WAIT_FIRST
        try:
            while True:
                try:
                    await self._connection.send(b"SUBSCRIBE", self._channel)
                    while True:
                        self._take(await self._next())
                        delay = _WAIT_FIRST
                except (Lost, ClicketError) as trouble:
                    if delay == _WAIT_FIRST:
                        logger.info("%s: no hints of other processes for now: %s", self._session.url, trouble)
                self._session.listening = 0
                await asyncio.sleep(delay)
                delay = min(delay * 2, _WAIT_MOST)
        finally:
            self._session.listening = 0
            await self._connection.drop()

    async def _next(self) -> object:
        message = await self._connection.listen(_SILENCE)
        if message is None:
            await self._connection.send(b"PING")
            message = await self._connection.listen(self._session.timeout)
            if message is None:
                await self._connection.drop()
                raise Lost(f"no answer within {self._session.timeout:g} s")
        return message

    def _take(self, message: object) -> None:
        match message:
            case [b"subscribe", _, _]:
                self._session.listening = 1
            case [b"message", self._channel, bytes(text)]:
                kind, key, sender, to = (text.split(b" ") + [b""] * 4)[:4]
                me = str(self._session.me).encode()
                if kind not in _KINDS or not key.isdigit() or sender == me or to not in (b"", me):
                    return
                try:
                    self._on_hint(kind.decode(), int(key))
                except Exception:
                    logger.exception("a callback of a hint failed")
            case _:
                pass
