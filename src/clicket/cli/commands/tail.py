"""`clicket tail`: events as they become durable, whoever runs the call. Ends with the call, or never for all calls."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer
from rich.text import Text

from clicket.cli.completion import complete_id, complete_thread
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import at, shortened, what_happened
from clicket.cli.options import CallerOption
from clicket.cli.orphans import is_orphan
from clicket.cli.session import Session, find_call
from clicket.cli.terminal import Terminal, clean
from clicket.errors import NotFound
from clicket.kernel import State
from clicket.model import Event, Record
from clicket.runtime import Runtime

__all__ = ["tail"]

_LOOK_EVERY = 0.3
_MOST_FOLLOWED = 200


async def tail(
    session: Session,
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="The id or its beginning; all active calls if left out.", autocompletion=complete_id
        ),
    ] = None,
    thread: Annotated[str | None, typer.Option(help="Of this conversation.", autocompletion=complete_thread)] = None,
    caller: CallerOption = None,
    after: Annotated[int, typer.Option(help="Only events after this number.")] = 0,
) -> None:
    """Follow a call's events live, also when another process runs it."""
    terminal = session.terminal
    async with session.watcher() as runtime:
        if id is None:
            await _follow_all(runtime if caller is None else runtime.acting_for(caller), terminal, thread)
            return
        view, record = await find_call(runtime, id, thread, caller)
        if not record.state.is_terminal and not terminal.json and await is_orphan(runtime, record):
            terminal.say("its owner is gone; `clicket recover` takes it over", style="yellow")
        handle = await view.handle(record.id, thread=record.thread)
        last: Event | None = None
        async for event in handle.events(after):
            _print(terminal, event, record if after == 0 else None, first=last)
            last = event
        state = last.state if last is not None else await view.state(record.id, thread=record.thread)
    if state is not State.COMPLETED:
        raise CallFailed


async def _follow_all(runtime: Runtime, terminal: Terminal, thread: str | None) -> None:
    """Calls are found by looking again and again: those that are active, and those that came and went meanwhile."""
    followed: set[tuple[str, str, str]] = set()
    since = time.time()
    if not terminal.json:
        terminal.say("following all calls; Ctrl-C ends it", style="bright_black")
    async with asyncio.TaskGroup() as group:
        while True:
            active = await runtime.history(thread=thread, active=True, limit=_MOST_FOLLOWED)
            recent = await runtime.history(thread=thread, since=since, limit=_MOST_FOLLOWED)
            for record in reversed([*active.items, *recent.items]):
                if (record.id, record.thread, record.caller) not in followed:
                    followed.add((record.id, record.thread, record.caller))
                    group.create_task(_follow(runtime, terminal, record))
            await asyncio.sleep(_LOOK_EVERY)


async def _follow(runtime: Runtime, terminal: Terminal, record: Record) -> None:
    handle = await runtime.acting_for(record.caller).handle(record.id, thread=record.thread)
    try:
        async for event in handle.events():
            _print(terminal, event, record)
    except NotFound:
        return  # swept while we read it


def _print(terminal: Terminal, event: Event, record: Record | None, first: Event | None = None) -> None:
    if terminal.json:
        terminal.print_json_line(event)
        return
    line = Text(f"{at(event.at)}  ", style="bright_black")
    if record is not None:
        line.append(f"{clean(shortened([record.id])[record.id])}  ", style="bright_black")
        line.append(f"{clean(record.tool)}  ", style="bold")
    line.append(f"{event.seq:>3} ", style="bright_black").append(f"{event.type:<17} ").append_text(what_happened(event))
    terminal.out.print(line, soft_wrap=True)
