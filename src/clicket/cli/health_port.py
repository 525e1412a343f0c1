"""A small HTTP port for the probes and the metrics of a worker. `/livez` and `/readyz` need no key; `/metrics` needs one with the scope
`read`, as at the server. While no key exists, it answers requests from this machine.

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
from typing import TYPE_CHECKING

from clicket.errors import ClicketError, UsageError
from clicket.runtime.runtime import Runtime

if TYPE_CHECKING:  # loaded with the first request for metrics
    from clicket.server.authentication import Authenticator

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
Headers = list[tuple[bytes, bytes]]


class HealthPort:
    """Answers the probes of one worker. `state()`: the state of the worker, or "starting" while it is not open. `host`: the address that
    it listens on."""

    def __init__(self, runtime: Runtime, state: Callable[[], str], host: str) -> None:
        self._runtime = runtime
        self._state = state
        self._host = host
        self._authenticator: Authenticator | None = None
        self._connections = 0
        self._checked_at = float("-inf")
        self._store_up = True
        self.port = 0

    async def answer(self, method: str, path: str, headers: Headers, client: tuple[str, int] | None) -> _Answer:
        """`headers`: with names in lower case. `client`: the address of the other side."""
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
                return await self._metrics(headers, client)
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

    async def _metrics(self, headers: Headers, client: tuple[str, int] | None) -> _Answer:
        if self._state() == "starting":
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"starting\n"
        from clicket.server.problems import STATUS_OF, Refused

        try:
            from clicket.telemetry.prometheus import scrape

            reader = await self._reader(headers, client)
            accept = next((value.decode("latin-1") for name, value in headers if name == b"accept"), "")
            body, content_type = await scrape(reader, accept)
        except Refused as error:
            return HTTPStatus(STATUS_OF[error.code]), _TEXT, f"{error.message}\n".encode()
        except (
            ClicketError
        ) as error:  # the package for metrics is missing, the runtime has closed, or the store is down
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{error.message}\n".encode()
        return HTTPStatus.OK, content_type, body

    async def _reader(self, headers: Headers, client: tuple[str, int] | None) -> Runtime:
        """The runtime whose figures the client may read; raises `Refused`."""
        from clicket.server.authentication import Authenticator
        from clicket.server.host_check import HostCheck
        from clicket.server.problems import Refused

        runtime = self._runtime
        if self._authenticator is None:
            settings = runtime.settings
            self._authenticator = Authenticator(
                runtime, lambda: runtime.store, settings.server.api_keys, needs_key=settings.oauth is not None
            )
        principal = await self._authenticator.authenticate(headers, client, patient=True)
        if not principal.id:  # no key exists: a web page in a browser on this machine must not read it
            HostCheck(self._host, (), ()).check({"headers": headers})
        if not principal.may("read"):
            raise Refused("missing_scope", "the key lacks the scope read. Use one that has it.")
        return principal.sees

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
        parts = [line.partition(":") for line in lines if line]
        headers = [
            (name.strip().lower().encode("latin-1"), value.strip().encode("latin-1")) for name, _, value in parts
        ]
        peer = writer.get_extra_info("peername")
        client = (str(peer[0]), int(peer[1])) if peer else ("", 0)
        status, content_type, body = await self.answer(method, path, headers, client)
        challenge = 'www-authenticate: Bearer realm="clicket"\r\n' if status is HTTPStatus.UNAUTHORIZED else ""
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
            f"{challenge}cache-control: no-store\r\nconnection: close\r\n\r\n"
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
    health = HealthPort(runtime, state, host)
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
