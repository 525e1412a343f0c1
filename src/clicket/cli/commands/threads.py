"""`clicket threads`: lists conversations with their last activity, counts of calls, and the state of their agents."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.text import Text

from clicket.cli.call_list import print_page
from clicket.cli.columns import Column
from clicket.cli.context import Context
from clicket.cli.formatting import ago, short
from clicket.cli.options import CallerOption
from clicket.cli.terminal import Terminal
from clicket.runtime.views.threads import ThreadPage, ThreadSummary

__all__ = ["threads"]


async def threads(
    context: Context,
    caller: CallerOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most N threads.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Continue after the page that ended with this cursor.")] = None,
) -> None:
    """List threads with their last activity, counts of calls and agents, newest first."""
    page = ThreadPage(items=[])
    if context.store_exists:
        async with context.reader() as reader:
            page = await (reader if caller is None else reader.acting_for(caller)).threads(limit=limit, cursor=cursor)
    if context.terminal.json:
        context.terminal.print_json(msgspec.to_builtins(page))
    else:
        _print(context.terminal, page)


def _print(terminal: Terminal, page: ThreadPage) -> None:
    items = page.items
    if not items:
        terminal.say("there are no threads.", style="bright_black")
        return
    columns = [
        Column("THREAD", [Text(short(item.name, 40), style="bold") for item in items], keep=True),
        Column("CALLER", [short(item.caller, 20) for item in items], rank=3),
        Column("ACTIVE", [str(item.active) for item in items], rank=6, right=True),
        Column("CALLS", [str(item.total) for item in items], rank=5, right=True),
        Column("LAST", [ago(item.last_activity_at) for item in items], rank=7, style="bright_black"),
        Column("AGENT", [_agent(item) for item in items], rank=4),
        Column("", [_states(item) for item in items], rank=1, least=16),
    ]
    print_page(terminal, columns, page.cursor)


def _agent(item: ThreadSummary) -> str:
    return ", ".join(f"{agent.name} {agent.state or '?'}" for agent in item.agents)


def _states(item: ThreadSummary) -> str:
    return ", ".join(f"{count} {state}" for state, count in item.counts.items())
