"""The runtime over stdin and stdout: messages there, and nothing else; logs go to stderr."""

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

from clicket.mcp.link import end_tasks
from clicket.mcp.server import TASK_AFTER, Serving
from clicket.mcp.visit import Key
from clicket.runtime import Runtime

__all__ = ["serve_stdio", "unless_left"]

_LOOK_EVERY = 0.05
_GONE = (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError)


async def serve_stdio(
    runtime: Runtime,
    *,
    extras: MCPServer[Any] | Server[Any] | None = None,
    instructions: str | None = None,
    task_after: float = TASK_AFTER,
) -> None:
    """Serve an open runtime to the program that started this one, until it closes our stdin."""
    key = Key(runtime)
    serving = Serving(
        lambda request: key,
        extras=extras,
        instructions=instructions,
        task_after=task_after,
        secret_key=runtime.settings.secret_key,
    )
    server = serving.server
    try:
        async with stdio_server() as (incoming, outgoing):
            # The SDK has its own hold of stdout by now; what a tool prints must not come out between messages, nor after them.
            with redirect_stdout(sys.stderr):
                await server.run(incoming, outgoing, server.create_initialization_options())
    except BaseExceptionGroup as group:
        error = _first(group)
        if not isinstance(error, _GONE):
            raise error from None
        # The client left without waiting for its answers.


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def unless_left(work: Coroutine[Any, Any, object]) -> bool:
    """Do something before serving, unless the client leaves first: then it is broken off. False: it was."""
    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left())
    try:
        await asyncio.wait([doing, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            return False
        await doing
        return True
    finally:
        await end_tasks(doing, leaving)


async def _left() -> None:
    """Until nobody holds the other end of stdin. What was sent before stays there to be read."""
    if not hasattr(select, "poll"):
        await asyncio.Event().wait()
    end = select.poll()
    try:
        end.register(sys.stdin.fileno(), getattr(select, "POLLRDHUP", 0))  # that it was hung up is told unasked
    except (OSError, ValueError, AttributeError):  # it is no file, as in tests
        await asyncio.Event().wait()
    while not end.poll(0):  # noqa: ASYNC110  # nobody tells: a loop that watches it would wake for every message, too
        await asyncio.sleep(_LOOK_EVERY)
