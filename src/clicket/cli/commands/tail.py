"""`clicket tail`: prints events as they become durable, in whichever process the call runs. Ends with the call."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer
from rich.text import Text

from clicket.cli.completion import complete_id
from clicket.cli.context import Context, find_call
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import at, shortened, what_happened
from clicket.cli.options import CallerOption, OnlyThreadOption
from clicket.cli.orphans import is_orphan
from clicket.cli.terminal import Terminal, clean
from clicket.errors import NotFound
from clicket.kernel import State
from clicket.model import Event, Record
from clicket.runtime.runtime import Runtime

__all__ = ["tail"]

_POLL_EVERY = 0.3
_MAX_FOLLOWED = 200


async def tail(
    context: Context,
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="The id or its beginning; default: all active calls.", autocompletion=complete_id
        ),
    ] = None,
    thread: OnlyThreadOption = None,
    caller: CallerOption = None,
    after: Annotated[int, typer.Option(help="Only events after this number.")] = 0,
) -> None:
    """Print a call's events as they happen, in whichever process it runs."""
    terminal = context.terminal
    async with context.watcher() as runtime:
        if id is None:
            await _follow_all(runtime if caller is None else runtime.acting_for(caller), terminal, thread)
            return
        view, record = await find_call(runtime, id, thread, caller)
        if not record.state.is_terminal and not terminal.json and await is_orphan(runtime, record):
            terminal.say("its owner is dead; `clicket recover` takes it over", style="yellow")
        handle = await view.handle(record.id, thread=record.thread)
        last: Event | None = None
        async for event in handle.events(after):
            _print(terminal, event, record if after == 0 else None)
            last = event
        state = last.state if last is not None else await view.state(record.id, thread=record.thread)
    if state is not State.COMPLETED:
        raise CallFailed


async def _follow_all(runtime: Runtime, terminal: Terminal, thread: str | None) -> None:
    """Polls the store for active calls, and for calls that began and ended between two polls."""
    followed: set[tuple[str, str, str]] = set()
    since = time.time()
    if not terminal.json:
        terminal.say("following all calls; Ctrl-C exits", style="bright_black")
    async with asyncio.TaskGroup() as group:
        while True:
            active = await runtime.history(thread=thread, active=True, limit=_MAX_FOLLOWED)
            recent = await runtime.history(thread=thread, since=since, limit=_MAX_FOLLOWED)
            for record in reversed([*active.items, *recent.items]):
                if (record.id, record.thread, record.caller) not in followed:
                    followed.add((record.id, record.thread, record.caller))
                    group.create_task(_follow(runtime, terminal, record))
            await asyncio.sleep(_POLL_EVERY)


async def _follow(runtime: Runtime, terminal: Terminal, record: Record) -> None:
    handle = await runtime.acting_for(record.caller).handle(record.id, thread=record.thread)
    try:
        async for event in handle.events():
            _print(terminal, event, record)
    except NotFound:
        return  # removed by retention meanwhile


def _print(terminal: Terminal, event: Event, record: Record | None) -> None:
    if terminal.json:
        terminal.print_json_line(event)
        return
    line = Text(f"{at(event.at)}  ", style="bright_black")
    if record is not None:
        line.append(f"{clean(shortened([record.id])[record.id])}  ", style="bright_black")
        line.append(f"{clean(record.tool)}  ", style="bold")
    line.append(f"{event.seq:>3} ", style="bright_black").append(f"{event.type:<17} ").append_text(what_happened(event))
    terminal.out.print(line, soft_wrap=True)
