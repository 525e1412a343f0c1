"""`clicket notices`: what webhook endpoints got, or did not get; sends a notice again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from clicket.cli.call_list import print_page
from clicket.cli.columns import Column
from clicket.cli.commands.approve import user_name
from clicket.cli.context import Context
from clicket.cli.formatting import ago, short
from clicket.cli.terminal import Terminal, clean, clean_lines
from clicket.errors import NotFound, UsageError
from clicket.model.notice import Notice, NoticePage

__all__ = ["notices"]

_STYLES = {"pending": "yellow", "delivered": "green", "failed": "red"}
_LEAST = 16
"""Characters of an id that are enough to find a notice: the time in it takes as many."""


async def notices(
    context: Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[show ID | replay ID...]", help="Show one notice, or send some again, under the same ids."
        ),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only notices that were given up.")] = False,
    pending: Annotated[bool, typer.Option("--pending", help="Only notices that are not delivered yet.")] = False,
    kind: Annotated[str | None, typer.Option("--type", help="Only notices of this type, such as call.ended.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000, help="At most N notices, newest first.")
    ] = 50,
    cursor: Annotated[str | None, typer.Option(help="Continue after the page that ended with this cursor.")] = None,
) -> None:
    """List notices to webhooks, newest first, or send some again.

    `clicket notices --failed` lists those that were given up, `clicket notices replay ID` sends one again.
    """
    action, *ids = words or ["list"]
    if action == "list" and not ids:
        state = "failed" if failed else "pending" if pending else None
        await _list(context, {"state": state, "type": kind, "limit": limit, "cursor": cursor})
    elif action == "replay" and ids:
        await _replay(context, ids)
    elif action == "show" and len(ids) == 1:
        await _show(context, ids[0])
    else:
        raise UsageError("write `clicket notices`, `clicket notices show ID` or `clicket notices replay ID...`.")


async def _list(context: Context, which: dict[str, Any]) -> None:
    terminal = context.terminal
    page = NoticePage(items=[])
    if context.store_exists:
        async with context.reader() as reader:
            page = await _outbox(reader.store).page(**which)
    if terminal.json:
        terminal.print_json(msgspec.to_builtins(page))
    elif page.items:
        _print(terminal, page)
    else:
        terminal.say("no notice is on record.", style="bright_black")


async def _show(context: Context, id: str) -> None:
    async with context.reader() as reader:
        outbox = _outbox(reader.store)
        notice = await outbox.get(await _whole(outbox, id))
    shown = msgspec.to_builtins(notice)
    if context.terminal.json:
        context.terminal.print_json(shown)
        return
    context.terminal.write(clean_lines(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()) + "\n")


async def _replay(context: Context, ids: Sequence[str]) -> None:
    async with context.watcher() as runtime:
        outbox = _outbox(runtime.store)
        named = [await _whole(outbox, id) for id in ids]  # all of them, before any is sent
        sent = [await runtime.notices.replay(id, by=user_name(None)) for id in named]
    if context.terminal.json:
        context.terminal.print_json({"items": msgspec.to_builtins(sent)})
        return
    for notice in sent:
        context.terminal.write(f"{notice.id} is sent to {clean(notice.endpoint)} again.\n")


def _outbox(store: Any) -> Any:
    from clicket.telemetry.webhooks import Outbox

    return Outbox(store, time.time)


async def _whole(outbox: Any, beginning: str) -> str:
    """The id that begins so."""
    if len(beginning) == 36:
        return beginning
    page = await outbox.page(limit=1_000)
    found = [notice.id for notice in page.items if notice.id.startswith(beginning)] if len(beginning) >= _LEAST else []
    if not found:
        raise NotFound(
            f"there is no notice {beginning!r:.100}. `clicket notices` lists them; write at least {_LEAST} characters."
        )
    if len(found) > 1:
        raise UsageError(f"{len(found)} notices begin with {beginning!r}; write more of the id.")
    return str(found[0])


def _print(terminal: Terminal, page: NoticePage) -> None:
    items = page.items
    now = time.time()
    columns = [
        Column("ID", [clean(each.id) for each in items], keep=True),
        Column("STATE", [Text(each.state, style=_STYLES[each.state]) for each in items], keep=True),
        Column("TYPE", [each.type for each in items], rank=8),
        Column("ENDPOINT", [short(each.endpoint, 40) for each in items], rank=7),
        Column("AGE", [ago(min(each.created_at, now)) for each in items], rank=6, style="bright_black"),
        Column("TRIES", [str(each.tries) for each in items], rank=5, right=True),
        Column("NEXT", [_next(each, now) for each in items], rank=3),
        Column("PROBLEM", [short(each.problem, 80) for each in items], rank=4, least=12),
    ]
    print_page(terminal, columns, page.cursor)


def _next(notice: Notice, now: float) -> str:
    if notice.next_at is None:
        return ""
    return "now" if notice.next_at <= now else f"in {notice.next_at - now:.0f} s"
