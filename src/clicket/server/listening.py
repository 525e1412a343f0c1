"""Runs the application on a socket. Leaving takes a bounded time: streams say goodbye, running calls get `close_timeout`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import Any

import msgspec
import uvicorn

from clicket.agents import Agent
from clicket.errors import UsageError
from clicket.runtime import Runtime
from clicket.server.app import create_app, is_open
from clicket.server.context import Context
from clicket.server.hosts import is_loopback
from clicket.server.options import Options
from clicket.server.protocol import protocol_with

__all__ = ["Served", "serve", "serving"]

_BACKLOG = 2_048


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A server that takes requests."""

    host: str
    port: int
    url: str
    keys: int
    locked: bool
    """There were keys, and all are revoked or expired: nobody can get in."""
    mcp: bool
    context: Any


class _Server(uvicorn.Server):
    """Signals are the business of whoever runs the loop."""

    @contextmanager
    def capture_signals(self) -> Any:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn would end the whole program; whoever asked for a server decides over that."""
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
    ready: Callable[[Served], object] | None = None,
) -> None:
    """Serve a runtime until `stop` is set or the task is cancelled. A runtime that is open is left closed.

    Port 0 takes a free one; `ready` is told which.
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
) -> AsyncIterator[Served]:
    """A server while the block runs. `agents`: as in `create_app`."""
    options = msgspec.structs.replace(options or Options(), host=host)
    with closing(_bind(host, port)) as bound:
        app = create_app(runtime, options, agents=agents)
        context: Context = app.state.clicket
        if not is_open(runtime):
            await runtime.open()
        server = _Server(_config(app, options))
        running = asyncio.ensure_future(server.serve(sockets=[bound]))
        try:
            await _started(server, running)
            served = await _described(app, context, bound)
            await _check_exposure(served, context)
            yield served
        finally:
            await _leave(context, server, running)


async def _check_exposure(served: Served, context: Context) -> None:
    if not is_loopback(served.host) and await context.doorkeeper.is_open():
        raise UsageError(
            f"without a key only this machine may ask, and {served.host} is open to others. Make one with "
            "`clicket keys create`, set CLICKET_API_KEYS, or bind 127.0.0.1."
        )


async def _started(server: uvicorn.Server, running: asyncio.Future[None]) -> None:
    """uvicorn tells nobody when it listens: it is looked at until it does."""
    while not server.started:
        if running.done():
            running.result()
            raise UsageError("the server did not start; its log says why.")
        await asyncio.sleep(0.005)


async def _leave(context: Context, server: uvicorn.Server, running: asyncio.Future[None]) -> None:
    """Not ready any more; calls end or are stopped; then answers that are under way are sent, and the door is shut."""
    context.drain()
    try:
        with suppress(UsageError):
            await context.runtime.close()
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
        backlog=_BACKLOG,
    )


def _bind(host: str, port: int) -> socket.socket:
    """Bound here, so that a port that is taken is an error of ours, and a free one is known."""
    try:
        found = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host!r} is no address of this machine: {error}. Try --host 127.0.0.1.") from None
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


async def _described(app: Any, context: Context, bound: socket.socket) -> Served:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    mcp = any(getattr(route, "path", "") == "/mcp" for route in app.router.routes)
    keys = await context.doorkeeper.count()
    locked = keys == 0 and not await context.doorkeeper.is_open()
    url = f"http://{shown}:{port}"
    return Served(host=host, port=port, url=url, keys=keys, locked=locked, mcp=mcp, context=context)
