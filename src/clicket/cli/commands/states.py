"""`clicket states`: which tools a thread may use now, and why not the others. `clicket reset`: makes them available again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from clicket.cli.completion import complete_thread, complete_tool
from clicket.cli.context import Context
from clicket.cli.terminal import clean
from clicket.engine.hub import ThreadHub, ToolView
from clicket.errors import UsageError
from clicket.kernel import ToolStatus
from clicket.runtime.runtime import Runtime
from clicket.tools import Registry

__all__ = ["reset", "states"]

_STYLES = {
    ToolStatus.AVAILABLE: "green",
    ToolStatus.FAILED: "red",
    ToolStatus.UNAVAILABLE: "yellow",
    ToolStatus.MAINTENANCE: "yellow",
}

Thread = Annotated[str, typer.Argument(metavar="THREAD", help="The thread.", autocompletion=complete_thread)]
Caller = Annotated[
    str, typer.Option(metavar="KEY", help="The id of the API key that owns the thread; default: the program's own.")
]


async def states(
    context: Context,
    thread: Thread = "default",
    caller: Caller = "",
    set: Annotated[
        str | None, typer.Option(metavar="TOOL=STATUS", help="Set the status of a tool: mail=maintenance.")
    ] = None,
    reason: Annotated[str, typer.Option(help="The reason, which the model also sees.")] = "",
    prompt: Annotated[bool, typer.Option("--prompt", help="Print the text that a model gets.")] = False,
) -> None:
    """Show which tools a thread may use now, why not the others, and which to call first."""
    terminal = context.terminal
    async with _hub(context, thread, caller, writes=set is not None) as hub:
        if set is not None:
            name, sign, status = set.partition("=")
            if not sign:
                raise UsageError(f"--set takes a tool and its status, like mail=maintenance, not {set!r}.")
            await hub.set(name.strip(), status.strip(), reason, by="command line")
        views = await hub.tools()
        line = await hub.summary()
        text = await hub.prompt() if prompt else ""
    if terminal.json:
        terminal.print_json({"thread": thread, "tools": msgspec.to_builtins(views), "summary": line})
    elif prompt:
        terminal.write(text + "\n")
    else:
        terminal.out.print(_table(views))
        terminal.say(clean(line), style="bright_black")


async def reset(
    context: Context,
    thread: Thread = "default",
    tool: Annotated[
        str | None,
        typer.Argument(metavar="TOOL", help="The tool; default: all tools.", autocompletion=complete_tool),
    ] = None,
    caller: Caller = "",
) -> None:
    """Make a tool that failed, or was disabled by hand, available again in a thread.

    The tools need not be installed here.
    """
    terminal = context.terminal
    async with _hub(context, thread, caller, tools=context.tools) as hub:
        done = await hub.reset(tool, by="command line")
    if terminal.json:
        terminal.print_json({"thread": thread, "reset": done})
    elif done:
        terminal.write(f"available again in thread {clean(thread)}: {clean(', '.join(done))}\n")
    else:
        terminal.write(f"nothing to reset in thread {clean(thread)}.\n")


@asynccontextmanager
async def _hub(
    context: Context, thread: str, caller: str, *, writes: bool = False, tools: list[Any] | None = None
) -> AsyncIterator[ThreadHub]:
    """The thread's hub. The tools are given to the hub, and not to the runtime, which would take over calls."""
    registry = Registry(context.needed_tools if tools is None else tools)
    exists = writes or context.store_exists
    settings = context.settings if exists else context.settings.replace(store="memory://")
    async with Runtime((), settings=settings) as runtime:
        yield runtime.acting_for(caller).hub(thread, registry=registry)


def _table(views: list[ToolView]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bright_black", pad_edge=False)
    table.add_column("TOOL", no_wrap=True)
    table.add_column("STATUS", no_wrap=True)
    table.add_column("OFFERED", no_wrap=True)
    table.add_column("REASON", overflow="fold")
    table.add_column("CALL FIRST", overflow="fold")
    for view in views:
        table.add_row(
            view.name,
            Text(str(view.status), style=_STYLES[view.status]),
            "yes" if view.available else "no",
            clean(view.reason),
            clean(", ".join(view.suggested)),
        )
    return table
