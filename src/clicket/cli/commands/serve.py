"""`clicket serve`: serves the runtime over HTTP, and MCP if its extra is installed, until a signal stops it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
from typing import Annotated, Any

import typer
from rich.text import Text

from clicket import server
from clicket.cli.context import Context
from clicket.cli.formatting import count_of, shown_url
from clicket.cli.shutdown import ShutdownSignals
from clicket.cli.terminal import Terminal
from clicket.cli.worker_log import WorkerLog
from clicket.errors import UsageError
from clicket.runtime.runtime import Runtime
from clicket.telemetry.logs import configure, follow

__all__ = ["serve"]


async def serve(
    context: Context,
    host: Annotated[str, typer.Option(help="The address to listen on; without API keys only loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 chooses a free one.")] = 8000,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further host name of the server, as behind a proxy. Repeatable."),
    ] = None,
    allowed_origin: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Allow web pages of this origin. Repeatable.")
    ] = None,
    log_format: Annotated[
        str, typer.Option(metavar="text|json|off", help="Format of the access log on stderr.")
    ] = "text",
) -> None:
    """Serve the tools over HTTP, and the console at `/`.

    TERM and Ctrl-C drain: streams end, running calls get `close_timeout` to finish. A second signal ends the process at once.
    """
    from clicket.server.access_log import AccessLog
    from clicket.server.options import Options

    options = Options(  # the server adds those of the settings
        host=host,
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
        access_log=log_format != "off",
        access_lines=AccessLog(sys.stderr, json=log_format == "json"),
    )
    context.terminal.lines = True
    server.allow_connections(options.max_connections)
    with ShutdownSignals() as shutdown:
        runtime = context.runtime()
        runtime.role = "server"
        _configure_log(log_format, runtime)
        opened = await shutdown.run_until_requested(runtime.open())
        if opened is not None:
            gc.collect()
            gc.freeze()  # what is loaded now stays, so full collections need not visit it
            await _serve(runtime, context, host, port, options, shutdown)
    if shutdown.signal is signal.SIGINT:
        raise KeyboardInterrupt


async def _serve(
    runtime: Runtime,
    context: Context,
    host: str,
    port: int,
    options: Any,
    shutdown: ShutdownSignals,
) -> None:
    log = WorkerLog(context.terminal, quiet=True)
    try:
        async with server.serving(runtime, host=host, port=port, options=options) as served:
            _print_ready(context.terminal, runtime, shown_url(runtime.settings.store), served)
            await shutdown.wait()
            await log.draining(shutdown.signal.name if shutdown.signal else "an error", runtime)
    finally:
        await runtime.close()
        options.access_lines.flush()
    if context.terminal.json:
        log.json("stopped", time.time())
    else:
        context.terminal.say("stopped", style="yellow")


def _print_ready(terminal: Terminal, runtime: Runtime, store: str, served: Any) -> None:
    tools = sorted(tool.name for tool in runtime.registry)
    agents = list(served.parts.agents)
    durability = runtime.store.durability
    kinds = (("keys", served.keys or served.locked), ("oauth", served.issuer is not None))
    auth = "+".join(kind for kind, there in kinds if there) or "none"
    if terminal.json:
        facts = {"url": served.url, "host": served.host, "port": served.port, "store": store, "durability": durability}
        more = {
            "auth": auth,
            "keys": served.keys,
            "issuer": served.issuer,
            "mcp": served.mcp,
            "tools": tools,
            "agents": agents,
            "pid": os.getpid(),
        }
        terminal.print_json_line({"event": "ready", "at": time.time(), **facts, **more})
        return
    if served.locked:
        keys = "every key is revoked or expired, so all requests are refused; `clicket keys create` makes one"
    elif served.keys:
        keys = count_of(served.keys, "key")
    elif served.issuer is not None:
        keys = "no keys"
    else:
        keys = "no keys: loopback only, and every user of this machine has full access"
    line = Text("listening on ").append(served.url, style="bold")
    line.append(f"\nconsole     {served.url}/")
    line.append(f"\nstore       {store}, durability {durability}")
    line.append(f"\nauth        {keys}" + (f"; access tokens of {served.issuer}" if served.issuer is not None else ""))
    line.append(f"\nmcp         {served.url}/mcp" if served.mcp else "\nmcp         off (pip install 'clicket[mcp]')")
    line.append(f"\ntools       {', '.join(tools) or 'none; name some with --tools module:name'}")
    if agents:
        line.append(f"\nagents      {', '.join(agents)}")
    terminal.say(line)


def _configure_log(form: str, runtime: Runtime) -> None:
    """Configure the log on stderr: text for people, JSON lines for programs."""
    if form not in ("text", "json", "off"):
        raise UsageError(f"--log-format must be text, json or off, not {form!r}.")
    if form == "off":
        configure("text", level=logging.WARNING)
        return
    configure("json" if form == "json" else "text")
    for name in ("uvicorn", "mcp"):  # their messages at start and end repeat ours
        logging.getLogger(name).setLevel(logging.WARNING)
    follow(runtime, completed=False)  # the access log has a line for each request
