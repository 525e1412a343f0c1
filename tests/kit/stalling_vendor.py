"""A vendor on loopback that falls silent: it accepts a request, sends some bytes of its answer or none, and then waits for the client."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

__all__ = ["StallingVendor", "stalling"]

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


class StallingVendor:
    """`pieces`: of the text that each answer has before the silence; None: not even the response's head. `asked`: a request has come,
    and what it gets was sent. `left`: its client has closed the connection."""

    def __init__(self) -> None:
        self.url = ""
        self.pieces: list[str] | None = []
        self.requests: list[dict[str, Any]] = []
        self.asked = asyncio.Event()
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        assert length is not None
        self.requests.append(json.loads(await reader.readexactly(int(length[1]))))
        if self.pieces is not None:
            writer.write(_HEAD + b"".join(_chunk(piece) for piece in self.pieces))
            await writer.drain()
        self.asked.set()
        assert await reader.read() == b""
        self.left.set()
        writer.close()


def _chunk(text: str) -> bytes:
    """Of OpenAI's chat completions."""
    data = {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    return f"data: {json.dumps(data)}\n\n".encode()


@asynccontextmanager
async def stalling() -> AsyncIterator[StallingVendor]:
    vendor = StallingVendor()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(vendor.serve(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    vendor.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield vendor
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
