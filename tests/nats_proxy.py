"""A proxy to a NATS server that drops, doubles, delays and so reorders the messages that clients get, by seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

from tests.cutting_proxy import CuttingProxy

__all__ = ["FaultyNats", "faulty_nats", "frames"]

_CHUNK = 1 << 16
_MESSAGES = (b"MSG ", b"HMSG ")


def frames(buffer: bytearray) -> Iterator[tuple[bool, bytes]]:
    """Take whole frames of NATS' protocol from the buffer; True: a message, False: a line of the protocol itself."""
    while (end := buffer.find(b"\r\n")) >= 0:
        line = bytes(buffer[:end])
        is_message = line.startswith(_MESSAGES)
        size = end + 2 + (int(line.rsplit(b" ", 1)[1]) + 2 if is_message else 0)
        if len(buffer) < size:
            return
        yield is_message, bytes(buffer[:size])
        del buffer[:size]


class FaultyNats(CuttingProxy):
    """`drop` and `double` are probabilities of each message; each copy arrives after up to `delay` seconds."""

    def __init__(self, target: int, seed: int, *, drop: float = 0.2, double: float = 0.2, delay: float = 0.05) -> None:
        super().__init__(target)
        self.chance = random.Random(seed)
        self.drop, self.double, self.delay = drop, double, delay
        self.dropped = self.doubled = 0

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cutting: asyncio.Event
    ) -> None:
        buffer = bytearray()
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._passes.wait()
                buffer += data
                for is_message, frame in frames(buffer):
                    if is_message:
                        self._deliver(writer, frame)
                    else:
                        writer.write(frame)
        writer.transport.abort()

    def _deliver(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        copies = [1 - (self.chance.random() < self.drop), int(self.chance.random() < self.double)]
        self.dropped += not copies[0]
        self.doubled += copies[1]
        for _ in range(sum(copies)):
            asyncio.get_running_loop().call_later(self.chance.random() * self.delay, _write, writer, frame)


def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    if not writer.transport.is_closing():
        writer.write(frame)


@asynccontextmanager
async def faulty_nats(target: int, seed: int, **chances: float) -> AsyncIterator[FaultyNats]:
    """A faulty proxy to the NATS server on a port of loopback."""
    proxy = FaultyNats(target, seed, **chances)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
