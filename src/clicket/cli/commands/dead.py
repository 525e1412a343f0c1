"""`clicket dead` and `clicket requeue`: calls that were given up, and running them again."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from clicket.cli.call_list import call_columns, print_page
from clicket.cli.columns import Column
from clicket.cli.completion import complete_id, complete_tool
from clicket.cli.context import Context, find_call
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import ago, as_state, short
from clicket.cli.options import CallerOption, OnlyThreadOption, ThreadOption
from clicket.cli.terminal import Terminal, clean
from clicket.errors import ClicketError
from clicket.runtime.calls.dead_letters import DeadPage

__all__ = ["dead", "requeue"]


async def dead(
    context: Context,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.", autocompletion=complete_tool)] = None,
    thread: OnlyThreadOption = None,
    caller: CallerOption = None,
    requeued: Annotated[bool, typer.Option("--requeued", help="Include those that run again already.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="At most N calls, newest first.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Continue after the page that ended with this cursor.")] = None,
) -> None:
    """List calls that were given up: failed for good, out of time, of unknown outcome, or damaged.

    `clicket requeue ID` runs one again. Look at the cause first: `clicket show ID`.
    """
    terminal = context.terminal
    page = DeadPage(items=[])
    if context.store_exists:
        async with context.watcher() as runtime:
            sees = runtime if caller is None else runtime.acting_for(caller)
            page = await sees.dead(tool=tool, thread=thread, limit=limit, cursor=cursor, requeued=requeued)
    if terminal.json:
        terminal.print_json(msgspec.to_builtins(page))
        return
    if not page.items:
        terminal.say("no call was given up.", style="bright_black")
        return
    _print(terminal, page)


def _print(terminal: Terminal, page: DeadPage) -> None:
    calls = page.items
    columns = [
        *call_columns(calls, thread_rank=3),
        Column("STATE", [as_state(call.state, plain=terminal.plain) for call in calls], keep=True),
        Column("ENDED", [ago(call.ended_at or call.created_at) for call in calls], rank=5, style="bright_black"),
        Column("TRIES", [str(call.attempts) for call in calls], rank=2, right=True),
        Column("WORKER", [clean(call.worker) for call in calls], rank=1),
        Column("REQUEUED AS", [clean(call.requeued_as or "") for call in calls], rank=6),
        Column("", [Text(f"{call.error.code}: {short(call.error.message, 120)}", style="red") for call in calls], rank=7, least=16),
    ]  # fmt: skip
    print_page(terminal, columns, page.cursor)


async def requeue(
    context: Context,
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="Calls; the beginning of an id is enough.", autocompletion=complete_id),
    ],
    thread: ThreadOption = None,
    caller: CallerOption = None,
) -> None:
    """Run calls that were given up again, as new calls that wait for a worker.

    The metadata of the new call names the old one. A call is requeued once; a second time changes nothing.
    The tools must be known here, as for `clicket call`.
    """
    from clicket.runtime.runtime import Runtime

    tools, terminal = context.needed_tools, context.terminal
    made: list[dict[str, Any]] = []
    failed: ClicketError | None = None
    async with Runtime(tools, settings=context.settings.replace(engine="workers")) as runtime:
        for id in ids:
            try:
                view, old = await find_call(runtime, id, thread, caller)
                handle = await view.requeue(old.id, thread=old.thread)
            except ClicketError as error:  # the others are requeued
                failed = error
                made.append({"id": None, "again_of": id, "error": {"code": error.code, "message": error.message}})
                terminal.say(f"{clean(id)}: {clean(error.message)}", style="red")
            else:
                made.append(
                    {"id": handle.id, "again_of": old.id, "thread": handle.thread, "tool": old.tool, "error": None}
                )
                if not terminal.json:
                    terminal.write(f"{clean(handle.id)} runs {clean(old.id)} again.\n")
    if terminal.json:
        terminal.print_json({"items": made})
    if failed is not None:
        raise CallFailed
