"""Runs the application with uvicorn. A shutdown takes a bounded time: streams end, running calls get `close_timeout`."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import Any

import msgspec
import uvicorn

from clicket.agents import Agent
from clicket.errors import UsageError
from clicket.runtime.runtime import Runtime
from clicket.server.app import Parts, create_app
from clicket.server.authentication import Authenticator
from clicket.server.host_check import is_loopback
from clicket.server.options import Options
from clicket.server.protocol import protocol_with

__all__ = ["RunningServer", "allow_connections", "bind", "serve", "serving", "within_file_limit"]

_BACKLOG = 2_048
_ACCEPTED_AT_ONCE = 64
"""Connections that the event loop accepts at once, before it reads from them."""
_RESERVED_FILES = 4 * _ACCEPTED_AT_ONCE


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that accepts requests."""

    host: str
    port: int
    url: str
    keys: int
    locked: bool
    """Keys exist, but all are revoked or expired: every request is refused."""
    mcp: bool
    issuer: str | None
    """The authorization server whose access tokens are accepted, too."""
    parts: Parts


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: the program handles signals."""

    @contextmanager
    def capture_signals(self) -> Any:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Raises an error where uvicorn would end the program."""
        try:
            await super().startup(sockets)
        except SystemExit:
            raise UsageError("the server did not start; its log says why.") from None


async def serve(
    runtime: Runtime,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    options: Options | None = None,
    agents: Iterable[Agent] | None = None,
    stop: asyncio.Event | None = None,
    ready: Callable[[RunningServer], object] | None = None,
) -> None:
    """Serve a runtime until `stop` is set or the task is cancelled. The runtime is closed at the end.

    Port 0 takes a free port. `ready` is called once the server accepts requests.
    """
    async with serving(runtime, host=host, port=port, options=options, agents=agents) as served:
        if ready is not None:
            ready(served)
        await (stop or asyncio.Event()).wait()


@asynccontextmanager
async def serving(
    runtime: Runtime,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    options: Options | None = None,
    agents: Iterable[Agent] | None = None,
) -> AsyncIterator[RunningServer]:
    """A server while the block runs. `agents`: as in `create_app`."""
    options = within_file_limit(msgspec.structs.replace(options or Options(), host=host))
    with closing(bind(host, port)) as bound:
        app = create_app(runtime, options, agents=agents)
        parts: Parts = app.state.clicket
        if not runtime.is_open:
            runtime.role = "server"
            await runtime.open()
        server = _Server(_config(app, options))
        running = asyncio.ensure_future(server.serve(sockets=[bound]))
        try:
            await _started(server, running)
            bound.listen(_BACKLOG)  # uvicorn's backlog is also how many connections it accepts at once
            served = await _described(parts, bound)
            await _check_exposure(served, parts.authenticator)
            yield served
        finally:
            await _stop(parts, server, running)


async def _check_exposure(served: RunningServer, authenticator: Authenticator) -> None:
    if not is_loopback(served.host) and await authenticator.is_off():
        raise UsageError(
            f"without a key only this machine may send requests, and {served.host} is open to others. Make one with "
            "`clicket keys create`, set CLICKET_API_KEYS or [oauth], or bind 127.0.0.1."
        )


async def _started(server: uvicorn.Server, running: asyncio.Future[None]) -> None:
    """Wait until uvicorn listens. It has no event for that, so its flag is polled."""
    while not server.started:
        if running.done():
            running.result()
            raise UsageError("the server did not start; its log says why.")
        await asyncio.sleep(0.005)


async def _stop(parts: Parts, server: uvicorn.Server, running: asyncio.Future[None]) -> None:
    """Refuse new requests, end the calls, let responses that are under way be sent, and close the socket."""
    parts.shutdown.begin()
    try:
        with suppress(UsageError):
            await parts.runtime.close()
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await running


def _config(app: Any, options: Options) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=protocol_with(options),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=max(round(options.keep_alive), 1),
        timeout_graceful_shutdown=max(round(options.stop_timeout), 1),
        backlog=_ACCEPTED_AT_ONCE,
    )


def within_file_limit(options: Options) -> Options:
    """Limit the connections to the file descriptors of the process. Stores, files and child processes need some too."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return options
    most = max(limit - max(limit // 4, _RESERVED_FILES), limit // 4, 1)
    return msgspec.structs.replace(options, max_connections=min(options.max_connections, most))


def allow_connections(count: int) -> None:
    """Raise the soft limit of file descriptors, as far as allowed, so that this many connections fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + max(count // 3 + 1, _RESERVED_FILES)
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def bind(host: str, port: int) -> socket.socket:
    """Bind here, so that a taken port raises `UsageError`, and the number of a free one is known."""
    try:
        found = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host!r} is not an address of this machine: {error}. Try --host 127.0.0.1.") from None
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise UsageError(
            f"{host}:{port} cannot be bound: {error.strerror}. Choose another --port, or 0 for any that is free."
        ) from None
    bound.setblocking(False)
    return bound


async def _described(parts: Parts, bound: socket.socket) -> RunningServer:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    keys = await parts.authenticator.count()
    oauth = parts.challenges.config
    locked = keys == 0 and oauth is None and not await parts.authenticator.is_off()
    url = f"http://{shown}:{port}"
    return RunningServer(
        host=host,
        port=port,
        url=url,
        keys=keys,
        locked=locked,
        mcp=parts.mcp is not None,
        issuer=None if oauth is None else oauth.issuer,
        parts=parts,
    )
