"""A proxy on loopback that loses answers: the server gets the request and executes it, but the client gets no answer.

It can also hold a request back and deliver it long after its sender gave up, as a network may, and cut the network: connections
stay open and new ones seem to be made, but nothing passes until the cut is mended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

__all__ = ["CuttingProxy", "cutting_proxy"]

_CHUNK = 1 << 16
_PATIENCE = 120.0
Chooser = Callable[[bytes], bool]


class CuttingProxy:
    """`cut` and `hold` see each client request; the first one that they choose loses its answer or is held back."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.cut: Chooser | None = None
        self.hold: Chooser | None = None
        self.cuts = 0
        self.held: list[tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._passes = asyncio.Event()
        self._passes.set()

    def silence(self) -> None:
        """Cut the network: nothing passes until `mend`. What was sent meanwhile then arrives, as TCP sends it again."""
        self._passes.clear()

    def mend(self) -> None:
        self._passes.set()

    def cut_once(self, marker: bytes) -> None:
        """Lose the answer to the next request that contains this, and no other."""

        def choose(data: bytes) -> bool:
            if marker not in data:
                return False
            self.cut = None
            return True

        self.cut = choose

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for _, _, writer in self.held:
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), 5.0)

    async def drop_all(self) -> None:
        """Break every connection. New ones are accepted."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def release(self) -> list[bytes]:
        """Deliver the held requests; returns the server's answers."""
        answers = []
        held, self.held = self.held, []
        for data, reader, writer in held:
            writer.write(data)
            answers.append(await asyncio.wait_for(reader.read(_CHUNK), _PATIENCE))
            writer.transport.abort()
        return answers

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._passes.wait()
            upstream = await asyncio.open_connection("127.0.0.1", self.target)
        except (OSError, asyncio.CancelledError):  # asyncio's server logs a cancelled one as a failure
            writer.transport.abort()  # a connection that is left open would outlive the loop
            self._tasks.discard(task)
            return
        kept = False
        back: asyncio.Task[None] | None = None
        try:
            cutting = asyncio.Event()
            back = asyncio.create_task(self._answers(upstream[0], writer, cutting))
            while data := await reader.read(_CHUNK):
                if self.hold is not None and self.hold(data):
                    back.cancel()
                    await asyncio.wait([back])
                    self.held.append((data, *upstream))
                    kept = True
                    while await reader.read(_CHUNK):  # until the sender gives up
                        pass
                    return
                if self.cut is not None and self.cut(data):
                    cutting.set()
                await self._passes.wait()
                upstream[1].write(data)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
            if back is not None:
                back.cancel()
                await asyncio.wait([back])
            if not kept:
                upstream[1].transport.abort()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cutting: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if cutting.is_set():
                    self.cuts += 1
                    break
                await self._passes.wait()
                writer.write(data)
        writer.transport.abort()


@asynccontextmanager
async def cutting_proxy(target: int) -> AsyncIterator[CuttingProxy]:
    """A proxy to a port of loopback."""
    proxy = CuttingProxy(target)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
