"""Pub/sub as the carrier of messages: of the store's own server, or of another one that is the bus. It listens on one connection and
publishes on another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from clicket.errors import ClicketError
from clicket.stores.bus import OnText
from clicket.stores.redis.address import Address, address
from clicket.stores.redis.connection import Connection, packed
from clicket.stores.remote import Lost

__all__ = ["PubSubCarrier", "redis_bus"]

logger = logging.getLogger("clicket.bus")

_SILENCE = 10.0
"""Seconds without a message until the server is pinged."""
_WAIT_FIRST = 0.1
_WAIT_MOST = 5.0


class PubSubCarrier:
    """`is_bus`: it is not the store's own server, so a warning says when it is away."""

    max_size = 256 * 1024

    def __init__(self, place: Address, timeout: float, *, is_bus: bool = False) -> None:
        self.name = place.url if is_bus else "store"
        self.trouble: str | None = "it is not connected yet"
        self._base = f"{place.base}hear".encode()
        self._timeout = timeout
        self._is_bus = is_bus
        self._listening = Connection(place, timeout)
        self._sending = Connection(place, timeout)
        self._space = b""
        self._task: asyncio.Task[None] | None = None
        self._warned = False
        self._heard = False

    def start(self, space: str, me: int, on_text: OnText) -> None:
        self._space = self._base + b":" + space.encode()
        channels = {self.channel(to): to for to in (0, me)}
        self._task = asyncio.get_running_loop().create_task(self._work(channels, on_text), name="clicket-redis-bus")

    def channel(self, to: int) -> bytes:
        """The name of the channel of a process, or of all (0)."""
        return b"%b:%d" % (self._space, to) if to else self._space

    async def send(self, messages: Sequence[tuple[int, bytes]]) -> None:
        if self.trouble is not None:
            return
        commands = [packed(b"PUBLISH", self.channel(to), text) for to, text in messages]
        try:
            await self._sending.execute(commands)
        except (Lost, ClicketError) as trouble:
            self._fail(trouble)
            await self._listening.drop()  # which connects again

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._sending.drop()

    async def _work(self, channels: dict[bytes, int], on_text: OnText) -> None:
        delay = _WAIT_FIRST
        try:
            while True:
                subscribed = 0

                def on_reply(message: object) -> None:
                    nonlocal subscribed, delay
                    match message:
                        case [b"message", bytes(channel), bytes(text)] if channel in channels:
                            on_text(channels[channel], text)
                        case [b"subscribe", _, _]:
                            subscribed += 1
                            if subscribed == len(channels):
                                self._on_back()
                                delay = _WAIT_FIRST
                        case _:
                            pass

                try:
                    await self._listening.listen(b"SUBSCRIBE", *channels)
                    await self._listen(on_reply)
                except (Lost, ClicketError) as trouble:
                    self._fail(trouble)
                await asyncio.sleep(delay)
                delay = min(delay * 2, _WAIT_MOST)
        finally:
            await self._listening.drop()

    async def _listen(self, on_reply: Callable[[object], None]) -> None:
        """Until the connection is lost, or the server has been silent, and silent to a ping."""
        asked = True
        while True:
            message = await self._listening.heard(self._timeout if asked else _SILENCE)
            if message is not None:
                on_reply(message)
                asked = False
            elif asked:
                await self._listening.drop()
                raise Lost(f"no answer within {self._timeout:g} s")
            else:
                await self._listening.say(b"PING")
                asked = True

    def _on_back(self) -> None:
        if self._warned and self._is_bus:
            logger.warning("%s: messages arrive again", self.name)
        self._warned, self.trouble = False, None

    def _fail(self, trouble: Exception) -> None:
        self.trouble = str(trouble)
        if not self._warned:
            self._warned = True
            level = logging.WARNING if self._is_bus else logging.INFO
            logger.log(
                level,
                "%s: messages are not carried (%s). Calls go on, and are found by looking at the store, a quarter of a second "
                "later; clicket connects again by itself.",
                self.name,
                trouble,
            )


def redis_bus(url: str, *, timeout: float) -> PubSubCarrier:
    """A Redis server that is only the bus."""
    return PubSubCarrier(address(url, "clicket", timeout), timeout, is_bus=True)
