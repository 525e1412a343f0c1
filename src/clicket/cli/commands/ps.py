"""`clicket ps`: lists the calls of a store, by default the active ones; with `--watch` repeatedly."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from clicket.cli.call_list import call_columns, print_more
from clicket.cli.columns import Column, fitted
from clicket.cli.completion import complete_state, complete_tool
from clicket.cli.context import Context, summary_of
from clicket.cli.formatting import ago, as_state, duration, pairs_of, retention_of, short, with_type
from clicket.cli.options import CallerOption, OnlyThreadOption
from clicket.cli.orphans import Owners, waits_for_worker
from clicket.cli.terminal import Terminal, clean
from clicket.model import Page, Record
from clicket.model.ports import Stored
from clicket.runtime.calls.history import HistoryOptions, history_query

if TYPE_CHECKING:
    from clicket.runtime.reader import Reader

__all__ = ["ps"]

_Key = tuple[str, str, str]
"""Id, thread and caller."""
LOOK_EVERY = 1.0
"""Seconds between two updates of `--watch`."""


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls to list."""

    which: HistoryOptions
    caller: str | None
    limit: int
    cursor: str | None


class _Found(msgspec.Struct):
    """A page of calls; keys of those whose owner is dead, and of those that wait for a worker."""

    page: Page
    left: set[_Key] = set()
    waiting: set[_Key] = set()


async def ps(
    context: Context,
    all: Annotated[bool, typer.Option("--all", "-a", help="Include ended calls.")] = False,
    thread: OnlyThreadOption = None,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.", autocompletion=complete_tool)] = None,
    state: Annotated[
        str | None, typer.Option(help="Only calls in this state; includes ended calls.", autocompletion=complete_state)
    ] = None,
    waiting_for: Annotated[
        str | None,
        typer.Option(help="Only calls that wait for this, such as approval, or dep:NAME of an agent's turn."),
    ] = None,
    caller: CallerOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most N calls, newest first.")] = 50,
    code: Annotated[str | None, typer.Option(help="Only calls that ended with this error code.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Only calls of this request.")] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only calls whose metadata has this value. Repeatable."),
    ] = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first.")] = False,
    cursor: Annotated[str | None, typer.Option(help="Continue after the page that ended with this cursor.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update every second, until Ctrl-C.")] = False,
) -> None:
    """List calls, by default the active ones, newest first."""
    active = not all and state is None and code is None
    which: HistoryOptions = {
        "thread": thread, "tool": tool, "state": state, "active": active, "code": code, "request_id": request_id,
        "waiting_for": waiting_for, "metadata": pairs_of(metadata or ()), "order": "asc" if oldest else "desc",
    }  # fmt: skip
    wanted = _Wanted(which=which, caller=caller, limit=limit, cursor=cursor)
    hint = "no call is active; `clicket ps --all` lists ended ones too." if active else "no call matches."
    if watch:
        async with context.reader() as reader:
            await _watch(context.terminal, reader, wanted, hint)
        return
    if not context.store_exists:
        found = _Found(Page(items=[]))
        hint = f"there is no store {context.store_url} yet. {context.store_hint}"
    else:
        async with context.reader() as reader:
            found = await _read(reader, wanted)
    if context.terminal.json:
        context.terminal.print_json(_plain(found))
    else:
        _print(context.terminal, found, hint)
        if not active and context.store_exists:
            context.terminal.say(f"{retention_of(context.settings)} (`retention`)", style="bright_black")


async def _read(reader: Reader, wanted: _Wanted) -> _Found:
    sees = reader if wanted.caller is None else reader.acting_for(wanted.caller)
    page = await sees.history(limit=wanted.limit, cursor=wanted.cursor, **wanted.which)
    if all(record.state.is_terminal for record in page.items):
        return _Found(page)
    which: HistoryOptions = {**wanted.which, "active": True}
    query = history_query(wanted.caller, wanted.limit, wanted.cursor, **which)
    found = await reader.store.history(query)
    owners = await Owners.of(reader)
    return _Found(
        page,
        left={_key_of_stored(stored) for stored in found if owners.are_gone(stored)},
        waiting={_key_of_stored(stored) for stored in found if waits_for_worker(stored)},
    )


async def _watch(terminal: Terminal, reader: Reader, wanted: _Wanted, hint: str) -> None:
    """On a terminal one list that is redrawn; elsewhere a list, or a line of JSON, for each change."""
    if terminal.json:
        terminal.lines = True
    before: Any = None
    with Live(console=terminal.out, auto_refresh=False, transient=False) as live:
        while True:
            found = await _read(reader, wanted)
            plain = _plain(found)
            if terminal.out.is_terminal and not terminal.json:
                empty = [] if found.page.items else [Text(hint, style="bright_black")]
                live.update(Group(_columns(terminal, found), *empty), refresh=True)
            elif plain != before:
                if terminal.json:
                    terminal.print_json_line(plain)
                else:
                    _print(terminal, found, hint)
            before = plain
            await asyncio.sleep(LOOK_EVERY)


def _plain(found: _Found) -> dict[str, Any]:
    calls = [{**summary_of(record), "owner_gone": _key(record) in found.left} for record in found.page.items]
    return {"items": calls, "calls": calls, "cursor": found.page.cursor, "searched_to": found.page.searched_to}


def _print(terminal: Terminal, found: _Found, hint: str) -> None:
    terminal.out.print(_columns(terminal, found))
    if not found.page.items:
        terminal.say(hint, style="bright_black")
    if found.left:
        terminal.say("some calls have a dead owner: `clicket recover` takes them over", style="yellow")
    if found.page.searched_to is not None:
        made = ago(found.page.searched_to)
        terminal.say(
            f"searched 10,000 calls; the last one was made {made}. Give --thread, --tool or --since", style="yellow"
        )
    print_more(terminal, found.page.cursor)


def _key_of_stored(stored: Stored) -> _Key:
    first = stored.events[0].data
    return stored.id, first["thread"], first.get("caller", "")


def _key(record: Record) -> _Key:
    return record.id, record.thread, record.caller


def _columns(terminal: Terminal, found: _Found) -> RenderableType:
    records = found.page.items
    columns = [
        *call_columns(records, thread_rank=4),
        Column("STATE", [_state(terminal, record, found.left) for record in records], keep=True),
        Column("CREATED", [ago(record.created_at) for record in records], rank=1, style="bright_black"),
        Column("TOOK", [_took(record) for record in records], rank=3, right=True),
        Column("TRIES", [str(len(record.attempts)) for record in records], rank=2, right=True),
        Column("WORKER", [clean(record.worker) for record in records], rank=0),
        Column("", [remark(record, unowned=_key(record) in found.waiting) for record in records], rank=7, least=16),
    ]
    return fitted(columns, terminal.out.width)


def _state(terminal: Terminal, record: Record, left: set[_Key]) -> Text:
    state = as_state(record.state, plain=terminal.plain)
    return state.append(" (owner gone)", style="yellow") if _key(record) in left else state


def _took(record: Record) -> str:
    return duration(record.duration if record.duration is not None else time.time() - record.created_at)


def remark(record: Record, *, unowned: bool = False) -> Text:
    """What the call waits for, its progress, or why it failed."""
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
