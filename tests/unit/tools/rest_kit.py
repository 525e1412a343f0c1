"""Shared by the tests of `rest`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

from clicket.tools.context import ToolContext
from clicket.tools.rest import RestTool

__all__ = [
    "Answer",
    "Cut",
    "Quiet",
    "Seen",
    "Server",
    "answer",
    "call",
    "make_context",
    "rest",
    "serving",
    "unused_port",
]


class Quiet:
    """A sink that counts heartbeats."""

    def __init__(self) -> None:
        self.beats = 0

    def emit(self, chunk: Any) -> None: ...
    def progress(self, step: float, total: float | None, text: str) -> None: ...
    def note(self, text: str, data: Any) -> None: ...
    async def drain(self) -> None: ...

    def heartbeat(self) -> None:
        self.beats += 1

    cancelled = False
    time_left = None


def make_context(key: str = "key-1", sink: Quiet | None = None) -> ToolContext:
    return ToolContext(
        sink or Quiet(), call_id="c1", tool="t", thread="t1", attempt=1, idempotency_key=key, metadata={}
    )


class Seen:
    """One request as received."""

    def __init__(self, head: bytes, body: bytes, connection: int) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ", 2)
        self.headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
        self.body = body
        self.connection = connection


class Cut(bytes):
    """Sent, and then the connection is closed."""


Answer = bytes | Callable[[Seen], bytes]


def answer(body: bytes | str | Any = b"", status: str = "200 OK", **headers: str) -> bytes:
    if not isinstance(body, bytes | str):
        headers.setdefault("content_type", "application/json")
        body = json.dumps(body)
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(raw)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


class Server:
    """Answers each request with the next of `answers`; repeats the last one."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answers: list[Answer] = [answer({"ok": True})]
        self.connections = 0
        self.ended = asyncio.Event()
        self.got_request = asyncio.Event()
        self.hold = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
                length = next((int(x[15:]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")), 0)
                seen = Seen(head, await reader.readexactly(length), number)
                self.seen.append(seen)
                self.got_request.set()
                if self.hold:
                    await reader.read()  # until the client closes
                    return
                now = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                writer.write(now(seen) if callable(now) else now)
                await writer.drain()
                if isinstance(now, Cut):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended.set()
            writer.close()


@contextlib.asynccontextmanager
async def serving(ssl_context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server()
    served: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served[asyncio.ensure_future(server.serve(reader, writer))] = writer

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=ssl_context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for _ in range(10):  # connections being opened or closed
            await asyncio.sleep(0)
        for task, writer in served.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*served, return_exceptions=True)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def rest(*args: Any, **options: Any) -> AsyncIterator[RestTool]:
    tool = RestTool(*args, **{"allow_private": True, **options})
    try:
        yield tool
    finally:
        await tool.close()


async def call(tool: RestTool, ctx: ToolContext | None = None, /, **arguments: Any) -> Any:
    return await tool.run(tool.bind(arguments), ctx or make_context())


async def unused_port() -> int:
    listener = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = int(listener.sockets[0].getsockname()[1])
    listener.close()
    await listener.wait_closed()
    return port
