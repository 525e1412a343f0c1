"""A small HTTP server on loopback, in its own process: prints its port, answers every request, exits when its stdin closes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["serving"]

_ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{"a":1}'


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(_ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def serving() -> Iterator[str]:
    """The server's URL, while it runs."""
    command = [sys.executable, "-P", "-m", "benchmarks.loopback"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.communicate()


if __name__ == "__main__":
    asyncio.run(serve())
