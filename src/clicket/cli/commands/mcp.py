"""`clicket mcp`: serves the tools to an MCP client over stdin and stdout, or lists the tools of another MCP server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import redirect_stdout
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from clicket.cli.context import Context, join_declared
from clicket.cli.errors import UNREACHABLE, CallFailed
from clicket.cli.formatting import short
from clicket.cli.shutdown import ShutdownSignals
from clicket.cli.terminal import clean
from clicket.errors import RetryableError, UsageError
from clicket.runtime.runtime import Runtime

__all__ = ["mcp"]


async def mcp(
    context: Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[tools URL | tools -- COMMAND …]", help="Default: serve. `tools` lists the tools of a server."
        ),
    ] = None,
) -> None:
    """Serve the tools to an MCP client over stdin and stdout.

    An MCP client starts this as its server: `clicket mcp --tools my_tools`.
    Each tool call is stored like any other. Servers declared as
    `mcp.servers.NAME` in clicket.toml add their tools. Logs go to stderr.

    `clicket mcp tools URL` and `clicket mcp tools -- COMMAND …` list the
    tools of another server; CLICKET_API_KEY is sent to a URL.
    """
    if not words:
        await _serve(context)
    elif words[0] == "tools" and len(words) > 1:
        await _list(context, words[1:])
    else:
        raise UsageError("clicket mcp takes no arguments, or `tools` and a server: its URL, or -- and its command.")


async def _serve(context: Context) -> None:
    from clicket.adapters.mcp.stdio import serve_stdio, unless_client_leaves
    from clicket.telemetry.logs import SecretHidingFormatter

    if context.terminal.json:
        raise UsageError("clicket mcp writes MCP messages to stdout; leave out --json.")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SecretHidingFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s")))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    with redirect_stdout(sys.stderr):
        _ = context.tools  # their modules may print when they are imported
    with ShutdownSignals() as shutdown:
        async with context.runtime() as runtime:
            # A client that has closed stdin still gets its responses, but no server is waited for.
            await shutdown.run_until_requested(unless_client_leaves(join_declared(runtime)))
            if shutdown.signal is None:
                tools = await runtime.tools()
                store = runtime.store
                context.terminal.say(f"clicket mcp: {len(tools)} tools, {store.url}, durability {store.durability}")
                await _serve_until_signal(serve_stdio(runtime), runtime, shutdown)
    if shutdown.signal is not None:
        raise KeyboardInterrupt


async def _serve_until_signal(serving: Coroutine[Any, Any, None], runtime: Runtime, shutdown: ShutdownSignals) -> None:
    """Serve until stdin closes or a signal comes. A thread blocks in a read of stdin and cannot be woken, so after closing the
    runtime the process ends by the signal itself."""
    tasks = asyncio.ensure_future(serving), asyncio.ensure_future(shutdown.wait())
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    tasks[1].cancel()
    if tasks[0].done():
        await tasks[0]
        return
    await runtime.close()
    number = shutdown.signal or signal.SIGTERM
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


async def _list(context: Context, server: list[str]) -> None:
    from clicket.adapters.mcp import McpServer

    is_url = server[0].startswith(("http://", "https://"))
    if is_url and len(server) > 1:
        raise UsageError("give one URL only.")
    key = os.environ.get("CLICKET_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    name = server[0] if is_url else " ".join(server)
    there = McpServer(name, url=server[0], headers=headers) if is_url else McpServer(name, command=server)
    try:
        async with there:
            tools = await there.tools()
    except RetryableError as error:
        if context.terminal.json:
            context.terminal.print_json({"error": {"code": "unreachable", "message": error.message}})
        else:
            context.terminal.complain("unreachable", error.message)
        raise CallFailed(UNREACHABLE) from None
    if context.terminal.json:
        context.terminal.print_json([_facts(tool) for tool in tools])
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("tool", "hints", "description"):
        table.add_column(heading, overflow="fold")
    for tool in tools:
        hints = [name for name in ("read_only", "idempotent") if getattr(tool.options, name)]
        table.add_row(clean(tool.remote_name), " ".join(hints), short(clean(tool.description), 80))
    context.terminal.out.print(table)


def _facts(tool: Any) -> dict[str, Any]:
    return {
        "name": tool.remote_name,
        "description": tool.description,
        "input_schema": msgspec.to_builtins(tool.input_schema),
        "output_schema": msgspec.to_builtins(tool.output_schema),
        "read_only": tool.options.read_only,
        "idempotent": tool.options.idempotent,
    }
