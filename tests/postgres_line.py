"""A connection to PostgreSQL that breaks where a test needs it: between a commit and its answer, or before a statement
arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.postgres_server import PostgresServer

__all__ = ["Line", "a_line"]


class Line:
    """A proxy to the server that can cut a connection between a commit and its answer, or hold a statement back.

    Connections are identified by their requests: a `mark` is bytes that were once sent on the connection.
    """

    def __init__(self, port: int) -> None:
        self.port = 0
        self.cuts = 0
        self.down = False
        self.held: list[bytes] = []
        self.late_answers = 0
        self._target = port
        self._cut: bytes | None = None
        self._said = b""
        self._hold: bytes | None = None
        self._release = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ways: set[asyncio.Future[None]] = set()

    def cut_next_answer(self, mark: bytes, said: bytes = b"") -> None:
        """On a marked connection; `said`: the answer to a statement that contains these bytes."""
        self._cut, self._said = mark, said

    def hold_next_statement(self, mark: bytes) -> None:
        self._hold = mark

    def release(self) -> None:
        self._release.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        far: asyncio.StreamWriter | None = None
        try:
            if self.down:
                return
            back, far = await asyncio.open_connection("127.0.0.1", self._target)
            state = {"seen": b"", "cut": b"", "held": b""}
            up = asyncio.ensure_future(self._up(reader, far, state))
            down = asyncio.ensure_future(self._down(back, writer, state))
            self._ways |= {up, down}
            try:
                await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
                if state["held"]:  # the client may have closed; its bytes are still in transit
                    await asyncio.wait([up])
                    await asyncio.wait([down], timeout=30)
            finally:
                up.cancel()
                down.cancel()
                await asyncio.gather(up, down, return_exceptions=True)
                self._ways -= {up, down}
        except OSError:
            pass
        finally:
            for side in (writer, far):
                if side is not None:
                    side.transport.abort()

    async def _up(self, reader: asyncio.StreamReader, far: asyncio.StreamWriter, state: dict[str, bytes]) -> None:
        while data := await reader.read(65536):
            if self._hold is not None and self._hold in state["seen"]:
                self._hold = None
                state["held"] = data
                self.held.append(data)
                await self._release.wait()
                far.write(data)
                await far.drain()
                return
            if self._cut is not None and self._cut in state["seen"] and self._said in data:
                self._cut = None
                state["cut"] = b"yes"
            state["seen"] += data
            far.write(data)
            await far.drain()

    async def _down(self, back: asyncio.StreamReader, writer: asyncio.StreamWriter, state: dict[str, bytes]) -> None:
        while data := await back.read(65536):
            if state["cut"]:
                self.cuts += 1
                return
            if state["held"]:
                self.late_answers += 1
                return
            writer.write(data)
            await writer.drain()

    async def hang_up(self) -> None:
        for way in self._ways:
            way.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def a_line(server: PostgresServer) -> AsyncIterator[Line]:
    line = Line(server.port)
    listening = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = listening.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        listening.close()
        await line.hang_up()
        await listening.wait_closed()
