"""A thousand readers of one busy server. Fifty stop reading: the others are not affected, and memory is bounded."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from tests.kit.examples import in_long_runs
from tests.kit.waiting import eventually
from tests.scenarios.server_kit import Api, served

from clicket import ToolContext, tool
from clicket.server import http_server

ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)
CROWD = in_long_runs(1_000, else_=250)
STOPPED = 50


class Reader:
    """Reads a stream as bytes, and reconnects after every few events."""

    def __init__(self, it: Api, path: str, *, every: int) -> None:
        self.it = it
        self.path = path
        self.every = every
        self.seen: list[int] = []
        self.visits = 0

    async def read(self) -> None:
        while not await self._visit():
            pass

    async def _visit(self) -> bool:
        """One connection; True when the stream came to its end."""
        reader, writer = await asyncio.open_connection(self.it.served.host, self.it.served.port)
        last = f"Last-Event-ID: {self.seen[-1]}\r\n" if self.seen else ""
        writer.write(f"GET {self.path} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n".encode())
        self.visits += 1
        new = 0
        try:
            while True:
                part = await reader.readuntil(b"\n\n") if new == 0 else await _more(reader)
                found = [int(number) for number in ID.findall(part)]
                self.seen += found
                new += len(found)
                if b'"state":"completed"' in part or part == b"":
                    return True
                if new >= self.every and not part.endswith(b"\n\n"):
                    continue
                if new >= self.every:
                    return False
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def _more(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\n\n")
    except asyncio.IncompleteReadError as end:
        return end.partial


async def stopped(it: Api, path: str) -> socket.socket:
    """A client that sends a request and never reads."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, (it.served.host, it.served.port))
    await loop.sock_sendall(raw, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return raw


def memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel would buffer a megabyte for each client; then none of them would ever slow the server."""
    bind = http_server.bind

    def smaller(host: str, port: int) -> socket.socket:
        bound = bind(host, port)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * 1024)
        return bound

    monkeypatch.setattr(http_server, "bind", smaller)


async def test_a_crowd_of_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    small_buffers(monkeypatch)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 3 * CROWD), hard), hard))
    step = asyncio.Semaphore(0)

    @tool(timeout=None)
    async def busy(ctx: ToolContext) -> str:
        for number in range(40):
            await step.acquire()
            ctx.emit(f"{number} " + "x" * 6_000)
        return "done"

    async with served([busy], options={"stall_timeout": 60.0, "heartbeat": 5.0}) as it:
        id = (await it.post("/calls", json={"tool": "busy"})).json()["id"]
        path = f"/calls/{id}/events"
        silent = [await stopped(it, path) for _ in range(STOPPED)]
        readers = [Reader(it, path, every=1_000 if number % 10 else 7) for number in range(CROWD - STOPPED)]
        tasks = [asyncio.create_task(reader.read()) for reader in readers]
        await eventually(lambda: len(it.parts.event_streams.open) >= CROWD * 0.9)
        before = memory()
        for _ in range(40):
            step.release()
            await asyncio.sleep(0)
            # Others are served meanwhile.
            assert (await it.get("/healthz")).status_code == 200
        await asyncio.gather(*tasks)
        grown = memory() - before
        held_up = [reader for reader in it.parts.event_streams.open if reader.sending_since is not None]
        assert len(held_up) == STOPPED, "readers that stopped delay their own stream only"
        whole = len((await it.get(f"/calls/{id}")).json()["events"])
        for reader in readers:
            assert reader.seen == list(range(1, whole + 1))
        assert any(reader.visits > 1 for reader in readers)
        # 67 to 88 kB for each on a quiet machine, up to 156 kB on a busy one; a copy of all events would be 240 kB more.
        assert grown < 240_000 * CROWD, f"{grown / 1e6:.0f} MB more"
        for raw in silent:
            raw.close()
        await eventually(lambda: not it.parts.event_streams.open)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
