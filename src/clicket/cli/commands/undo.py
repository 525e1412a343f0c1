"""`clicket undo`: undoes a call, or the calls of a turn."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from clicket.cli.completion import complete_id
from clicket.cli.context import Context, find_call
from clicket.cli.exit_codes import FAILED
from clicket.cli.options import CallerOption, ThreadOption
from clicket.cli.terminal import Terminal, clean
from clicket.errors import UsageError
from clicket.model.undo import UndoReport

__all__ = ["undo"]

_STYLES = {"undone": "green", "unknown": "yellow", "failed": "red", "impossible": "bright_black", "waiting": "cyan"}


async def undo(
    context: Context,
    id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="The id of a call, or its beginning.", autocompletion=complete_id),
    ] = None,
    turn: Annotated[int | None, typer.Option(min=1, help="Undo the calls of this turn of --thread.")] = None,
    agent: Annotated[str | None, typer.Option(help="Whose turn it is, if several agents use the thread.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run undos again that failed.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict/--no-strict", help="Stop at a call of which it is unknown whether it happened.")
    ] = True,
    dry: Annotated[bool, typer.Option("--dry", help="Change nothing; list what would be undone.")] = False,
    thread: ThreadOption = None,
    caller: CallerOption = None,
) -> None:
    """Undo a call, or all calls of a turn, the last one first.

    A call is undone by the undo of its tool, once. Exit code 1: something was not undone that could be.
    """
    if (id is None) is (turn is None) or (turn is not None and thread is None):
        raise UsageError("name a call, `clicket undo ID`, or a turn, `clicket undo --thread NAME --turn N`.")
    _ = context.needed_tools  # they have the undos
    async with context.joined() as runtime:
        options: dict[str, Any] = {"strict": strict, "retry": retry, "dry": dry}
        if id is not None:
            view, call = await find_call(runtime, id, thread, caller)
            report = await view.undo(call.id, thread=call.thread, **options)
        else:
            view = runtime if caller is None else runtime.acting_for(caller)
            report = await view.undo(thread=thread, turn=turn, agent=agent, **options)
    _print(context.terminal, report, dry=dry)
    if not dry and not report.is_complete:
        raise typer.Exit(FAILED)


def _print(terminal: Terminal, report: UndoReport, *, dry: bool) -> None:
    if terminal.json:
        terminal.print_json(msgspec.to_builtins(report))
        return
    listed = False
    for name, style in _STYLES.items():
        for each in getattr(report, name):
            listed = True
            shown = "would undo" if dry and name == "waiting" else name
            terminal.say(f"{shown:<10}  {clean(each.tool)}  {clean(each.id)}: {clean(each.reason)}", style=style)
    if not listed:
        terminal.say("nothing to undo: no call of the turn had an effect.", style="bright_black")
