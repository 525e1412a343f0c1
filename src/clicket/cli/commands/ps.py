"""`clicket ps`: the calls of a store, active ones unless told otherwise."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from clicket.cli.completion import complete_state, complete_thread, complete_tool
from clicket.cli.owners import Owners, waits
from clicket.cli.session import Session, summary_of
from clicket.cli.terminal import Terminal, clean
from clicket.cli.words import ago, as_state, duration, short, shortened, with_type
from clicket.kernel import State
from clicket.model import Page, Record
from clicket.ports import Query, Stored

__all__ = ["ps"]

_Name = tuple[str, str]
"""Id and thread."""


async def ps(
    session: Session,
    all: Annotated[bool, typer.Option("--all", "-a", help="Ended calls too.")] = False,
    thread: Annotated[str | None, typer.Option(help="Of this conversation.", autocompletion=complete_thread)] = None,
    tool: Annotated[str | None, typer.Option(help="Of this tool.", autocompletion=complete_tool)] = None,
    state: Annotated[
        str | None, typer.Option(help="In this state; looks at ended calls too.", autocompletion=complete_state)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many, newest first.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
) -> None:
    """List calls, newest first."""
    terminal = session.terminal
    active = not all and state is None
    left: set[_Name] = set()
    waiting: set[_Name] = set()
    if not session.store_exists:
        page, hint = Page(items=[]), f"there is no store {session.store_url} yet. {session.store_hint}"
    else:
        async with session.watcher() as runtime:
            page = await runtime.history(
                thread=thread, tool=tool, state=state, active=active, limit=limit, cursor=cursor
            )
            if any(not record.state.is_terminal for record in page.items):
                before, wanted = None if cursor is None else int(cursor), None if state is None else State(state)
                query = Query(thread=thread, tool=tool, state=wanted, active=True, limit=limit, before=before)
                found, owners = await runtime.store.history(query), await Owners.of(runtime)
                left = {_name(stored) for stored in found if owners.have_left(stored)}
                waiting = {_name(stored) for stored in found if waits(stored)}
        hint = "no call is active; `clicket ps --all` lists ended ones too." if active else "no call fits."
    if terminal.json:
        calls = [{**summary_of(record), "owner_gone": (record.id, record.thread) in left} for record in page.items]
        terminal.print_json({"items": calls, "calls": calls, "cursor": page.cursor})
        return
    _print(terminal, page, left, waiting)
    if not page.items:
        terminal.say(hint, style="bright_black")
    if left:
        terminal.say("the owner of some is gone: `clicket recover` takes them over", style="yellow")
    if page.cursor is not None:
        terminal.say(f"more: --cursor {page.cursor}", style="bright_black")


def _name(stored: Stored) -> _Name:
    return stored.id, stored.events[0].data["thread"]


def _print(terminal: Terminal, page: Page, left: set[_Name], waiting: set[_Name]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bright_black", pad_edge=False, expand=True)
    for name in ("ID", "TOOL", "THREAD", "STATE"):
        table.add_column(name, no_wrap=True)
    table.add_column("CREATED", no_wrap=True, style="bright_black")
    table.add_column("TOOK", no_wrap=True, justify="right")
    table.add_column("TRIES", no_wrap=True, justify="right")
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    ids = shortened([record.id for record in page.items])
    for record in page.items:
        took = record.duration if record.duration is not None else time.time() - record.created_at
        state = as_state(record.state, plain=terminal.plain)
        called = (record.id, record.thread)
        if called in left:
            state.append(" (owner gone)", style="yellow")
        table.add_row(
            Text(clean(ids[record.id])),
            Text(clean(record.tool), style="bold"),
            Text(short(record.thread, 20)),
            state,
            ago(record.created_at),
            duration(took),
            str(len(record.attempts)),
            remark(record, unowned=called in waiting),
        )
    terminal.out.print(table)


def remark(record: Record, *, unowned: bool = False) -> Text:
    """What one would ask next: what it waits for, how far it is, why it failed."""
    if record.waiting_for is not None:
        return Text(f"waiting for {record.waiting_for}", style="yellow")
    if record.error is not None:
        return Text(f"{record.error.code}: {short(with_type(record.error), 120)}", style="red")
    if record.state.is_terminal:
        return Text(short(record.content, 50), style="bright_black")
    if record.cancel_requested:
        return Text("cancel requested", style="yellow")
    if unowned:
        return Text("waiting for a worker", style="yellow")
    if record.progress is not None:
        share = record.progress.get("percentage")
        return Text(f"{f'{share:.0f} %  ' if share is not None else ''}{short(record.progress.get('status', ''), 50)}")
    return Text("")
