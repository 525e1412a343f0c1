"""`clicket again`: runs a call again, as a new call, and prints its output."""

from __future__ import annotations

from typing import Annotated

import typer

from clicket.cli.commands.approve import read_option
from clicket.cli.commands.call import follow
from clicket.cli.completion import complete_id
from clicket.cli.context import Context, find_call
from clicket.cli.options import CallerOption, ThreadOption
from clicket.cli.terminal import clean

__all__ = ["again"]


async def again(
    context: Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id or its beginning.", autocompletion=complete_id)],
    arguments: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE", help="Run the new call with these arguments; default: with those of the old one."
        ),
    ] = None,
    thread: ThreadOption = None,
    caller: CallerOption = None,
) -> None:
    """Run a call again, as a new call, also with other arguments."""
    terminal = context.terminal
    given = None if arguments is None else read_option(arguments)
    _ = context.needed_tools  # without tools no call can run here
    async with context.joined() as runtime:
        view, old = await find_call(runtime, id, thread, caller)
        repeated = await view.effects(old.id, thread=old.thread)
        if repeated and given is None and not terminal.json:
            names = ", ".join(clean(name) for name in dict.fromkeys(each.tool for each in repeated))
            terminal.say(f"repeats {len(repeated)} effects on record: {names}", style="yellow")
        handle = await view.again(old.id, given, thread=old.thread)
        if not terminal.json:
            terminal.say(f"{clean(handle.id)} runs {clean(old.id)} again", style="bright_black")
        await follow(view, terminal, handle, old.tool, stream=False)
