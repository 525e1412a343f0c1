"""The runtime over stdin and stdout: messages there, and nothing else; logs go to stderr."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from clicket.mcp.server import TASK_AFTER, Serving
from clicket.mcp.visit import Key
from clicket.runtime import Runtime

__all__ = ["serve_stdio"]


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
    async with stdio_server() as (incoming, outgoing):
        # The SDK has its own hold of stdout by now; what a tool prints must not come out between messages, nor after them.
        with redirect_stdout(sys.stderr):
            await server.run(incoming, outgoing, server.create_initialization_options())
