"""One HTTP client for every contender: a number of persistent connections, each with one open request at a time.

Standard library only: this module is imported into every peer's environment. It uses sockets, without an HTTP library,
so that its own cost is small and the same for all; its own CPU load is one of the figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from urllib.parse import urlsplit

from benchmarks import timing

__all__ = ["CONNECTIONS", "STRUCTURED", "post", "rates", "tool_call"]

CONNECTIONS = 16
_LEAST = 200
"""Fewer answers than this give no useful 99th percentile: the client continues until it has so many."""
STRUCTURED = b'"structuredContent":{"a":1}'
"""The answer of an MCP server to `tool_call`."""
_CLOSE, _END_OF_CHUNKS = b"\r\n\r\n", b"0\r\n\r\n"


def post(url: str, body: Any, headers: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a request. They are the same every time it is sent."""
    parts = urlsplit(url)
    content = json.dumps(body, separators=(",", ":")).encode()
    lines = [f"POST {parts.path} HTTP/1.1", f"host: {parts.netloc}", "content-type: application/json"]
    lines += [f"content-length: {len(content)}", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return "\r\n".join(lines).encode() + _CLOSE + content


def tool_call(url: str, version: str, headers: Mapping[str, str] | None = None) -> bytes:
    """MCP's `tools/call` of `noop`, as one stateless request."""
    told = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
        "mcp-method": "tools/call",
        "mcp-name": "noop",
    }
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "noop", "arguments": {"a": 1}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return post(url, body, {**told, **(headers or {})})


class Asker(asyncio.Protocol):
    """One connection. It checks every answer: an error or an unexpected body ends the run."""

    def __init__(self, request: bytes, expected: bytes) -> None:
        self.request = request
        self.expected = expected
        self.end = 0.0
        self.taken: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._heard = b""
        self._sent_at = 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def ask_until(self, end: float) -> asyncio.Future[None]:
        """Send, wait for the whole answer, send again; until that time has come and the last answer has arrived."""
        self.end, self.taken = end, []
        self.done = asyncio.get_running_loop().create_future()
        self._send()
        return self.done

    def _send(self) -> None:
        self._sent_at = perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        heard = self._heard = self._heard + data if self._heard else data
        at = heard.find(_CLOSE)
        if at < 0 or not _is_whole(heard, at + 4):
            return
        now = perf_counter()
        self._heard = b""
        if not heard.startswith(b"HTTP/1.1 200") or self.expected not in heard:
            self._fail(f"an answer that was not expected: {heard[:600]!r}")
            return
        self.taken.append(now - self._sent_at)
        if now < self.end:
            self._send()
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"the server closed the connection: {error or 'no reason'}")

    def _fail(self, words: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(words))


def _is_whole(heard: bytes, body_at: int) -> bool:
    """Is the answer complete? It has a Content-Length, or it comes in chunks."""
    head = heard[:body_at].lower()
    _, told, rest = head.partition(b"content-length:")
    if told:
        return len(heard) - body_at >= int(rest.partition(b"\r\n")[0])
    if b"transfer-encoding: chunked" not in head:
        raise RuntimeError(f"an answer of unknown length: {head!r}")
    return heard.endswith(_END_OF_CHUNKS)


async def rates(request: bytes, url: str, expected: bytes, *, seconds: float, server: int) -> dict[str, float]:
    """Alone: the median of one request at a time. Then with all connections: requests per second, median, 99th percentile.

    `server` is the server's process id: its CPU time per request depends least on other load of the machine.
    """
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    askers = [
        (await loop.create_connection(lambda: Asker(request, expected), parts.hostname, parts.port))[1]
        for _ in range(CONNECTIONS)
    ]
    await _together(askers, seconds / 3)  # to warm up
    await _together(askers[:1], seconds / 3)
    alone = statistics.median(askers[0].taken)
    taken: list[float] = []
    elapsed = busy = spent = 0.0
    least = _LEAST if not timing.quick() else 1
    while elapsed < seconds or len(taken) < least:
        started, worked, served = perf_counter(), process_time(), _cpu_time(server)
        taken += await _together(askers, seconds)
        elapsed += perf_counter() - started
        busy += process_time() - worked
        spent += _cpu_time(server) - served
    for asker in askers:
        asker.transport.abort()
    return {
        "per_second": len(taken) / elapsed,
        "p50_us": alone * 1e6,
        "p50_loaded_ms": statistics.median(taken) * 1e3,
        "p99_ms": _quantile(taken, 0.99) * 1e3,
        "client_busy": busy / elapsed,
        **({"cpu_us": spent / len(taken) * 1e6} if spent else {}),
    }


def _cpu_time(process: int) -> float:
    """Seconds of CPU that a process has used; 0 on systems without /proc."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _together(askers: list[Asker], seconds: float) -> list[float]:
    end = perf_counter() + seconds
    await asyncio.gather(*(asker.ask_until(end) for asker in askers))
    return [taken for asker in askers for taken in asker.taken]


def _quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]
