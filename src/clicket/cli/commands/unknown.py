"""`clicket unknown` and `clicket resolve`: calls whose outcome is unknown, and settling one."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from clicket.cli.call_list import call_columns, print_page
from clicket.cli.columns import Column
from clicket.cli.commands.approve import read_option, user_name
from clicket.cli.completion import complete_id, complete_tool
from clicket.cli.context import Context, find_call, summary_of
from clicket.cli.formatting import ago, resolution_of, short
from clicket.cli.options import CallerOption, OnlyThreadOption, ThreadOption
from clicket.cli.terminal import Terminal, clean
from clicket.errors import UsageError
from clicket.model import Page, Record
from clicket.model.codec import decode

__all__ = ["resolve", "unknown"]


async def unknown(
    context: Context,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.", autocompletion=complete_tool)] = None,
    thread: OnlyThreadOption = None,
    caller: CallerOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="At most N calls, oldest first.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Continue after the page that ended with this cursor.")] = None,
) -> None:
    """List calls whose outcome is unknown and not settled, the oldest first.

    `clicket show ID` shows what is known, and `clicket resolve ID` settles one.
    """
    terminal = context.terminal
    page = Page(items=[])
    if context.store_exists:
        async with context.watcher() as runtime:
            sees = runtime if caller is None else runtime.acting_for(caller)
            page = await sees.unknown(tool=tool, thread=thread, limit=limit, cursor=cursor)
    if terminal.json:
        calls = [{**summary_of(record), "arguments": record.arguments} for record in page.items]
        terminal.print_json({"items": calls, "cursor": page.cursor})
        return
    if not page.items:
        terminal.say("no call has an unknown outcome.", style="bright_black")
        return
    _print(terminal, page)


def _print(terminal: Terminal, page: Page) -> None:
    calls = page.items
    columns = [
        *call_columns(calls, thread_rank=3),
        Column("ENDED", [ago(call.ended_at or call.created_at) for call in calls], rank=6, style="bright_black"),
        Column("WORKER", [clean(call.worker) for call in calls], rank=1),
        Column("IDEMPOTENCY KEY", [clean(call.idempotency_key) for call in calls], rank=5),
        Column("ARGUMENTS", [short(msgspec.json.encode(call.arguments).decode(), 200) for call in calls], rank=7, least=12),
    ]  # fmt: skip
    print_page(terminal, columns, page.cursor)


async def resolve(
    context: Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id or its beginning.", autocompletion=complete_id)],
    happened: Annotated[
        bool | None,
        typer.Option("--happened/--did-not-happen", help="Did the call have its effect? One of the two is needed."),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE", help="What the call returned, if that is known.")
    ] = None,
    note: Annotated[str, typer.Option(metavar="TEXT", help="Stored with the settlement.")] = "",
    rerun: Annotated[
        bool, typer.Option("--rerun", help="It did not happen: run it again, as a new call that waits for a worker.")
    ] = False,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who settles it; default: your user name.")] = None,
    thread: ThreadOption = None,
    caller: CallerOption = None,
) -> None:
    """Settle a call whose outcome is unknown: say whether it happened.

    The outcome on record stays as it is; the settlement is added to it. A call is settled once.
    """
    if happened is None:
        raise UsageError("say what happened: --happened or --did-not-happen.")
    given: dict[str, Any] = {"happened": happened, "note": note, "by": user_name(by), "rerun": rerun}
    if output is not None:
        given["output"] = _json(read_option(output))
    async with _runtime(context, rerun) as runtime:
        view, call = await find_call(runtime, id, thread, caller)
        record = await view.resolve(call.id, thread=call.thread, **given)
    _report(context.terminal, record)


def _runtime(context: Context, rerun: bool) -> Any:
    """Without tools, so that it takes over no calls; to run one again with the tools, as a call for a worker."""
    if not rerun:
        return context.watcher()
    from clicket.runtime.runtime import Runtime

    return Runtime(context.needed_tools, settings=context.settings.replace(engine="workers"))


def _json(text: str) -> Any:
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f'--output must be JSON, such as {{"id": 7}} or "done" in quotes: {error}.') from None


def _report(terminal: Terminal, record: Record) -> None:
    if terminal.json:
        settled = {"id": record.id, "thread": record.thread, "state": str(record.state)}
        terminal.print_json({**settled, "resolution": record.resolution})
        return
    decided = f"decided: the call is {record.state}"  # it waited for a decision, so it has no unknown outcome to settle
    terminal.say(f"{clean(record.id)}: {resolution_of(record) or decided}")
