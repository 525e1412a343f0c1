"""A small HTTP port for the probes and the metrics of a worker: `/livez`, `/readyz`, `/metrics`. It needs no key and reveals no calls.

`/healthz` is `/livez` under the name that the server has.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from time import monotonic

from clicket.errors import ClicketError, UsageError
from clicket.runtime import Runtime

__all__ = ["HealthPort", "health_port"]

logger = logging.getLogger("clicket.worker")
_MAX_HEAD = 8_192
_PATIENCE = 5.0
"""Seconds for a request to arrive, and for its response to be read."""
_STORE_TIMEOUT = 3.0
_VALID_FOR = 1.0
_MAX_CONNECTIONS = 64
_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"

_Answer = tuple[HTTPStatus, str, bytes]


class HealthPort:
    """Answers the probes of one worker. `state()`: the state of the worker, or "starting" while it is not open."""

    def __init__(self, runtime: Runtime, state: Callable[[], str]) -> None:
        self._runtime = runtime
        self._state = state
        self._connections = 0
        self._checked_at = float("-inf")
        self._store_up = True
        self.port = 0

    async def answer(self, method: str, path: str, accept: str) -> _Answer:
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET and HEAD\n"
        match path.partition("?")[0]:
            case "/livez" | "/healthz":
                return HTTPStatus.OK, _JSON, b'{"status":"ok"}'
            case "/readyz":
                reason = await self._not_ready()
                body = json.dumps({"ready": reason is None, "reason": reason}).encode()
                return (HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE), _JSON, body
            case "/metrics":
                return await self._metrics(accept)
        return HTTPStatus.NOT_FOUND, _TEXT, b"there are /livez, /readyz and /metrics\n"

    async def _not_ready(self) -> str | None:
        state = self._state()
        if state != "active":
            return state
        if monotonic() - self._checked_at > _VALID_FOR:  # probes must not load the store
            self._checked_at = monotonic()
            try:
                async with asyncio.timeout(_STORE_TIMEOUT):
                    await self._runtime.store.document("ping", "ping")
                self._store_up = True
            except (ClicketError, TimeoutError):
                self._store_up = False
        return None if self._store_up else "store_unavailable"

    async def _metrics(self, accept: str) -> _Answer:
        if self._state() == "starting":
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"starting\n"
        try:
            from clicket.telemetry.prometheus import scrape

            body, content_type = await scrape(self._runtime, accept)
        except UsageError as error:  # the package for metrics is missing, or the runtime has closed
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{error.message}\n".encode()
        return HTTPStatus.OK, content_type, body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of one connection."""
        self._connections += 1
        try:
            if self._connections <= _MAX_CONNECTIONS:
                async with asyncio.timeout(_PATIENCE):
                    await self._serve(reader, writer)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a request, or its client is gone
        except Exception:
            logger.exception("a request to the health port failed")
        finally:
            self._connections -= 1
            writer.close()
            with suppress(OSError, TimeoutError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status, content_type, body = await self.answer(method, path, headers.get("accept", ""))
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
            "cache-control: no-store\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode("latin-1") + (b"" if method == "HEAD" else body))
        await writer.drain()


@asynccontextmanager
async def health_port(
    runtime: Runtime, state: Callable[[], str], host: str, port: int | None
) -> AsyncIterator[HealthPort | None]:
    """The port while the block runs; None: no port is wanted. Port 0 takes a free one."""
    if port is None:
        yield None
        return
    health = HealthPort(runtime, state)
    try:
        server = await asyncio.start_server(health.serve, host, port, limit=_MAX_HEAD)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{host}:{port} cannot be bound: {error}. Choose another --health-port, or 0 for any that is free."
        ) from None
    health.port = server.sockets[0].getsockname()[1]
    try:
        yield health
    finally:
        server.close()
        await server.wait_closed()
