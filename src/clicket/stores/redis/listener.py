"""Hears what other processes did, over a connection of its own. All of it is hints: while the line is broken, polling does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from clicket.errors import ClicketError
from clicket.stores.redis.door import Door
from clicket.stores.redis.line import Line
from clicket.stores.remote import Lost

__all__ = ["Listener"]

logger = logging.getLogger("clicket.stores.redis")

_SILENCE = 10.0
"""Seconds without a word until the server is asked whether it is still there."""
_WAIT_FIRST = 0.1
_WAIT_MOST = 5.0
_KINDS = frozenset({b"events", b"work", b"request", b"slot", b"health"})


class Listener:
    def __init__(self, door: Door, line: Line, on_hint: Callable[[str, int], None]) -> None:
        self._door = door
        self._line = line
        self._on_hint = on_hint
        self._channel = f"{door.base}hear".encode()
        self._task = asyncio.get_running_loop().create_task(self._work(), name="clicket-redis-listener")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _work(self) -> None:
        delay = _WAIT_FIRST
        try:
            while True:
                try:
                    await self._line.say(b"SUBSCRIBE", self._channel)
                    while True:
                        self._take(await self._next())
                        delay = _WAIT_FIRST
                except (Lost, ClicketError) as trouble:
                    if delay == _WAIT_FIRST:
                        logger.info("%s: hearing nothing of other processes: %s", self._door.url, trouble)
                self._door.listening = 0
                await asyncio.sleep(delay)
                delay = min(delay * 2, _WAIT_MOST)
        finally:
            self._door.listening = 0
            await self._line.drop()

    async def _next(self) -> object:
        told = await self._line.listen(_SILENCE)
        if told is None:
            await self._line.say(b"PING")
            told = await self._line.listen(self._door.timeout)
            if told is None:
                await self._line.drop()
                raise Lost(f"no answer within {self._door.timeout:g} s")
        return told

    def _take(self, told: object) -> None:
        match told:
            case [b"subscribe", _, _]:
                self._door.listening = 1
            case [b"message", self._channel, bytes(text)]:
                kind, key, sender, to = (text.split(b" ") + [b""] * 4)[:4]
                me = str(self._door.me).encode()
                if kind not in _KINDS or not key.isdigit() or sender == me or to not in (b"", me):
                    return
                try:
                    self._on_hint(kind.decode(), int(key))
                except Exception:
                    logger.exception("who listens to the store failed")
            case _:
                pass
