"""`clicket memory` and `clicket forget`: what agents remember about a caller, and everything that the store has of one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from clicket.cli.columns import Column, fitted
from clicket.cli.commands.approve import user_name
from clicket.cli.context import Context
from clicket.cli.formatting import ago, short
from clicket.cli.terminal import clean
from clicket.model.fact import Fact

__all__ = ["edit_fact", "forget", "forget_fact", "list_facts"]

_Caller = Annotated[
    str, typer.Option("--caller", metavar="NAME", help="Whose: the id of an API key; default: the program's own.")
]
_Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the fact.")]
_By = Annotated[str | None, typer.Option(metavar="NAME", help="Who does it; default: your user name.")]


async def list_facts(
    context: Context,
    caller: _Caller = "",
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Only what this agent remembers for itself.")
    ] = None,
) -> None:
    """List what agents remember about a caller."""
    found: Sequence[Fact] = ()
    if context.store_exists:
        async with context.watcher() as runtime:
            found = await runtime.memory.list(caller=caller, agent=agent)
    terminal = context.terminal
    if terminal.json:
        terminal.print_json({"items": msgspec.to_builtins(found)})
    elif not found:
        terminal.say("nothing is remembered.", style="bright_black")
    else:
        now = time.time()
        columns = [
            Column("ID", [fact.id for fact in found], keep=True),
            Column("FACT", [short(fact.text, 500) for fact in found], keep=True),
            Column("AGENT", [fact.agent or "all" for fact in found], rank=5),
            Column("BY", [short(fact.by, 20) for fact in found], rank=3),
            Column("SINCE", [ago(min(fact.created_at, now)) for fact in found], rank=4, style="bright_black"),
        ]
        terminal.out.print(fitted(columns, terminal.out.width))


async def edit_fact(
    context: Context,
    id: _Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The new text.")],
    caller: _Caller = "",
    by: _By = None,
) -> None:
    """Replace the text of a fact. The next turns read the new one."""
    async with context.watcher() as runtime:
        _show(context, await runtime.memory.edit(id, text, caller=caller, by=user_name(by)), "changed")


async def forget_fact(context: Context, id: _Id, caller: _Caller = "", by: _By = None) -> None:
    """Forget one fact."""
    async with context.watcher() as runtime:
        _show(context, await runtime.memory.forget(id, caller=caller, by=user_name(by)), "forgotten")


def _show(context: Context, fact: Fact, what: str) -> None:
    if context.terminal.json:
        context.terminal.print_json(msgspec.to_builtins(fact))
    else:
        context.terminal.say(f"fact {fact.id} is {what}: {clean(fact.text)}")


async def forget(
    context: Context,
    caller: Annotated[str, typer.Argument(metavar="CALLER", help="The id of an API key; '' is the program itself.")],
    by: _By = None,
) -> None:
    """Remove everything that the store has of a caller: threads, calls and their outcomes, artifacts, memory and queued messages.

    It is refused while a call of the caller has not ended. After a kill, run it again.
    """
    async with context.watcher() as runtime:
        report = await runtime.forget(caller=caller, by=user_name(by))
    if context.terminal.json:
        context.terminal.print_json(msgspec.to_builtins(report))
        return
    counts = {
        "threads": report.threads, "calls": report.calls, "facts": report.facts, "artifacts": report.artifacts,
        "queued messages": report.messages,
    }  # fmt: skip
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    context.terminal.say(f"{clean(caller) or 'the program itself'} is forgotten: {said}.")
    if report.remaining:
        left = ", ".join(f"{count} {what}" for what, count in report.remaining.items())
        context.terminal.say(f"left alone: {left}. Their own commands remove them.", style="yellow")
