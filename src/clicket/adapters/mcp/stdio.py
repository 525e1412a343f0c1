"""The runtime as an MCP server over stdin and stdout. Stdout carries messages and nothing else; logs go to stderr."""

from __future__ import annotations

import asyncio
import select
import sys
from collections.abc import Coroutine
from contextlib import redirect_stdout
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from clicket.adapters.mcp.connection import end_tasks
from clicket.adapters.mcp.request_context import Access
from clicket.adapters.mcp.server import TASK_AFTER, RuntimeServer
from clicket.runtime.runtime import Runtime

__all__ = ["serve_stdio", "unless_client_leaves"]

_POLL_EVERY = 0.05
_CLOSED = (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError)


async def serve_stdio(
    runtime: Runtime,
    *,
    extras: MCPServer[Any] | Server[Any] | None = None,
    instructions: str | None = None,
    task_after: float = TASK_AFTER,
) -> None:
    """Serve an open runtime to the program that started this one, until it closes our stdin."""
    access = Access(runtime)
    server = RuntimeServer(
        lambda request: access,
        extras=extras,
        instructions=instructions,
        task_after=task_after,
        secret_key=runtime.settings.secret_key,
    ).server
    try:
        async with stdio_server() as (incoming, outgoing):
            # The SDK has opened stdout for itself. What a tool prints must not appear between the messages, nor after them.
            with redirect_stdout(sys.stderr):
                await server.run(incoming, outgoing, server.create_initialization_options())
    except BaseExceptionGroup as group:
        error = _first(group)
        if not isinstance(error, _CLOSED):  # the client closed the pipe without waiting for its responses
            raise error from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def unless_client_leaves(work: Coroutine[Any, Any, object]) -> bool:
    """Await `work`, but cancel it when the client closes stdin. False: it was cancelled."""
    working, closed = asyncio.ensure_future(work), asyncio.ensure_future(_stdin_closed())
    try:
        await asyncio.wait([working, closed], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        await working
        return True
    finally:
        await end_tasks(working, closed)


async def _stdin_closed() -> None:
    """Return when the other end of stdin is closed. Messages that were sent before stay readable."""
    if not hasattr(select, "poll"):
        await asyncio.Event().wait()
    poll = select.poll()
    try:
        poll.register(sys.stdin.fileno(), getattr(select, "POLLRDHUP", 0))  # POLLHUP is always reported
    except (OSError, ValueError, AttributeError):  # stdin is not a file, as in tests
        await asyncio.Event().wait()
    while not poll.poll(0):  # noqa: ASYNC110  # a reader of the event loop would wake for every message, too
        await asyncio.sleep(_POLL_EVERY)
