"""`clicket show`: everything known about one call, with its timeline."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from clicket.cli.completion import complete_id
from clicket.cli.context import Context, find_call
from clicket.cli.options import CallerOption, ThreadOption
from clicket.cli.orphans import is_orphan
from clicket.cli.record_view import draw_record

__all__ = ["show"]


async def show(
    context: Context,
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="The id or its beginning; default: the newest call.", autocompletion=complete_id
        ),
    ] = None,
    thread: ThreadOption = None,
    caller: CallerOption = None,
    events: Annotated[bool, typer.Option("--events", "-e", help="Also show every event.")] = False,
) -> None:
    """Show a call: its timeline, arguments, result and error."""
    terminal = context.terminal
    async with context.reader() as runtime:
        _, record = await find_call(runtime, id, thread, caller)
        gone = not record.state.is_terminal and await is_orphan(runtime, record)
    if terminal.json:
        terminal.print_json({**msgspec.to_builtins(record), "success": record.success, "owner_gone": gone})
        return
    terminal.out.print(draw_record(record, terminal.out.width, plain=terminal.plain, events=events))
    if gone:
        terminal.say("its owner is dead; `clicket recover` takes it over", style="yellow")
