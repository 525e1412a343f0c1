"""Two webhook endpoints on loopback for the demonstration: `chat` accepts every notice, `pager` is out of order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_bytes
from typing import Any

__all__ = ["WebhookReceiver"]

_ANSWERS = {"/chat": b"204 No Content", "/pager": b"500 Internal Server Error"}
_MAX_HEAD = 64 * 1024
_MAX_BODY = 1 << 20
_PATIENCE = 10.0


class WebhookReceiver:
    """Its port is taken when it is made, because the settings of the runtime name it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        secret = "whsec_" + b64encode(token_bytes(32)).decode()
        common: dict[str, Any] = {"secret": secret, "allow_private": True, "timeout": 5.0}
        asked = ["approval.requested", "call.unknown", "budget.reached"]
        self.endpoints: tuple[dict[str, Any], ...] = (
            {**common, "url": f"{base}/chat", "name": "team chat", "events": asked},
            {**common, "url": f"{base}/pager", "name": "pager", "events": asked[1:], "retry": [3.0, 6.0]},
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(_answer, sock=self._socket, limit=_MAX_HEAD)
        try:
            yield
        finally:
            server.close()

    def close(self) -> None:
        self._socket.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request, and say what its path says."""
    try:
        async with asyncio.timeout(_PATIENCE):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            sizes = [line.partition(":")[2] for line in lines if line.lower().startswith("content-length:")]
            await reader.readexactly(min(int(sizes[0]), _MAX_BODY) if sizes else 0)
            said = _ANSWERS.get(lines[0].split(" ")[1], b"404 Not Found")
            writer.write(b"HTTP/1.1 " + said + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
    except (OSError, ValueError, IndexError, EOFError, TimeoutError, asyncio.LimitOverrunError):
        pass  # whatever this was, it was no notice
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
