"""`clicket schedules`: calls that are made again and again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import typer
from rich.text import Text

from clicket.cli.columns import Column, fitted
from clicket.cli.commands.approve import user_name
from clicket.cli.commands.call import read_arguments
from clicket.cli.completion import complete_tool
from clicket.cli.context import Context
from clicket.cli.formatting import ago, duration, parse_duration, short
from clicket.cli.options import CallerOption
from clicket.cli.terminal import Terminal, clean
from clicket.errors import NotFound
from clicket.runtime.schedules import Schedule

__all__ = ["add", "list_schedules", "next_times", "pause", "remove", "resume", "show"]

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of schedules.")]
_LOG_STYLES = {"fired": "green", "queued": "yellow", "skipped": "yellow", "missed": "red", "failed": "red"}


async def list_schedules(context: Context) -> None:
    """List the schedules: when, what, and what became of the last times."""
    found: Sequence[Schedule] = []
    if context.store_exists:
        async with context.watcher() as runtime:
            found = await runtime.schedules.list()
    if context.terminal.json:
        context.terminal.print_json({"items": msgspec.to_builtins(found)})
    elif found:
        _print(context.terminal, found)
    else:
        context.terminal.say("there is no schedule. `clicket schedules add` makes one.", style="bright_black")


async def add(
    context: Context,
    name: NameArgument,
    cron: Annotated[
        str, typer.Argument(metavar="CRON", help="Five fields in quotes, such as '30 2 * * mon-fri', or @daily.")
    ],
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.", autocompletion=complete_tool)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JSON | KEY=VALUE … | -]", help="One JSON object, pairs, or - for stdin."),
    ] = None,
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="IANA name of the time zone, such as Europe/Berlin.")
    ] = "UTC",
    overlap: Annotated[str, typer.Option(help="While the call before runs: skip, queue or allow.")] = "skip",
    catch_up: Annotated[str, typer.Option(help="Times that were missed: run none, the last, or all.")] = "last",
    jitter: Annotated[str, typer.Option(metavar="TIME", help="Each call waits up to that long: 30s, 5m.")] = "0",
    thread: Annotated[str | None, typer.Option(help="The thread of its calls; default: schedule:NAME.")] = None,
    timeout: Annotated[str | None, typer.Option(metavar="TIME", help="Timeout of each attempt: 10, 500ms, 2m.")] = None,
    priority: Annotated[int, typer.Option(help="Calls with a higher number leave the queue first.")] = 0,
) -> None:
    """Make or change a schedule: a cron form, a tool and its arguments.

    Servers and workers over the store that have the tool make the calls.
    """
    schema: Any = next((t.input_schema for t in context.needed_tools if t.name == tool), {})
    given = read_arguments(arguments or [], schema)
    limit = None if timeout is None else parse_duration(timeout)
    async with context.joined() as runtime:
        runtime.stop_claiming()  # this command makes no calls
        made = await runtime.schedule(
            name,
            cron,
            tool,
            given,
            by=user_name(None),
            timezone=timezone,
            overlap=overlap,  # type: ignore[arg-type]  # it checks them
            catch_up=catch_up,  # type: ignore[arg-type]
            jitter=parse_duration(jitter),
            thread=thread,
            timeout=limit,
            priority=priority,
        )
    _report(context.terminal, [made])


async def show(context: Context, name: NameArgument, caller: CallerOption = None) -> None:
    """Show a schedule, and what became of its last times."""
    async with context.watcher() as runtime:
        found = await runtime.schedules.get(name, caller=caller)
    terminal = context.terminal
    if terminal.json:
        terminal.print_json(msgspec.to_builtins(found))
        return
    _print(terminal, [found])
    for entry in found.log:
        times = _local(entry.due, found.timezone) + (
            "" if entry.until is None else f" … {_local(entry.until, found.timezone)}"
        )
        late = f"{duration(entry.late)} late" if entry.late >= 1 else ""
        count = "" if entry.count == 1 else f"{entry.count or 'many'} times"
        rest = "  ".join(part for part in (count, late, clean(entry.call), clean(entry.reason)) if part)
        terminal.out.print(
            Text(f"{times}  "), Text(entry.outcome, style=_LOG_STYLES[entry.outcome]), Text(rest), sep="  "
        )


async def next_times(
    context: Context,
    name: NameArgument,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1_000, help="How many.")] = 5,
    caller: CallerOption = None,
) -> None:
    """Print the next times of a schedule."""
    async with context.watcher() as runtime:
        found = await runtime.schedules.get(name, caller=caller)
        times = await runtime.schedules.next(name, count, caller=caller)
    if context.terminal.json:
        context.terminal.print_json({"name": found.name, "timezone": found.timezone, "times": times})
        return
    for at in times:
        context.terminal.write(f"{_local(at, found.timezone)}\n")


async def pause(context: Context, names: NamesArgument, caller: CallerOption = None) -> None:
    """Let schedules fire no more until they are resumed.

    Calls that they made go on.
    """
    async with context.watcher() as runtime:
        changed = [await runtime.schedules.pause(name, by=user_name(None), caller=caller) for name in names]
    _report(context.terminal, changed)


async def resume(context: Context, names: NamesArgument, caller: CallerOption = None) -> None:
    """Let paused schedules fire again, from their next times on."""
    async with context.watcher() as runtime:
        changed = [await runtime.schedules.resume(name, by=user_name(None), caller=caller) for name in names]
    _report(context.terminal, changed)


async def remove(context: Context, names: NamesArgument, caller: CallerOption = None) -> None:
    """Remove schedules; their calls stay."""
    async with context.watcher() as runtime:
        for name in names:
            if not await runtime.schedules.remove(name, by=user_name(None), caller=caller):
                raise NotFound(f"there is no schedule {name!r:.120}. `clicket schedules` lists them.")
    if context.terminal.json:
        context.terminal.print_json({"removed": list(names)})
        return
    for name in names:
        context.terminal.write(f"{clean(name)} was removed.\n")


def _report(terminal: Terminal, schedules: Sequence[Schedule]) -> None:
    if terminal.json:
        terminal.print_json({"items": msgspec.to_builtins(schedules)})
        return
    for each in schedules:
        state = "is paused" if each.next_at is None else f"fires next at {_local(each.next_at, each.timezone)}"
        terminal.write(f"{clean(each.name)} {state}.\n")


def _print(terminal: Terminal, schedules: Sequence[Schedule]) -> None:
    now = time.time()
    columns = [
        Column("NAME", [Text(clean(each.name), style="bold") for each in schedules], keep=True),
        Column("CRON", [clean(each.cron) for each in schedules], rank=8),
        Column("ZONE", [clean(each.timezone) for each in schedules], rank=4),
        Column("TOOL", [clean(each.tool) for each in schedules], rank=7),
        Column("NEXT", [_next(each, now) for each in schedules], rank=9),
        Column("LAST", [_last(each, now) for each in schedules], rank=6),
        Column("FIRED", [str(each.fired) for each in schedules], rank=3, right=True),
        Column("SKIPPED", [str(each.skipped) for each in schedules], rank=2, right=True),
        Column("MISSED", [str(each.missed) for each in schedules], rank=5, right=True),
        Column("CALLER", [short(each.caller, 20) for each in schedules], rank=1),
    ]
    terminal.out.print(fitted(columns, terminal.out.width))


def _next(schedule: Schedule, now: float) -> Text:
    if schedule.next_at is None:
        return Text("paused", style="yellow")
    if schedule.next_at < now - 60:
        return Text("overdue: no process has the tool", style="red")
    return Text(f"in {duration(max(schedule.next_at - now, 0))}")


def _last(schedule: Schedule, now: float) -> Text:
    if not schedule.log:
        return Text("")
    entry = schedule.log[-1]
    return Text(f"{entry.outcome} {ago(min(entry.at, now))}", style=_LOG_STYLES[entry.outcome])


def _local(at: float, zone: str) -> str:
    return datetime.fromtimestamp(at, ZoneInfo(zone)).isoformat(sep=" ", timespec="minutes")
