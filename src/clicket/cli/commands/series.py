"""`clicket series`: counts, errors, run times or queue lengths over time, one line for each step."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer

from clicket.cli.columns import Column, fitted
from clicket.cli.completion import complete_tool
from clicket.cli.context import Context
from clicket.cli.formatting import at, duration, parse_duration
from clicket.cli.options import CallerOption
from clicket.cli.terminal import Terminal
from clicket.telemetry.series import Series, series_in

__all__ = ["series"]


async def series(
    context: Context,
    metric: Annotated[str, typer.Argument(metavar="[METRIC]", help="calls, errors, latency or queue.")] = "calls",
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.", autocompletion=complete_tool)] = None,
    caller: CallerOption = None,
    since: Annotated[str, typer.Option(metavar="TIME", help="How long ago the first step begins: 30m, 6h, 7d.")] = "1h",
    step: Annotated[str, typer.Option(metavar="TIME", help="The length of a step, whole minutes: 1m, 5m, 1h.")] = "5m",
) -> None:
    """Show counts, errors, run times or queue lengths over time."""
    now = time.time()
    begin = now - parse_duration(since)
    length = int(parse_duration(step))
    async with context.reader() as reader:
        found = await series_in(reader.store, metric, now=now, caller=caller, tool=tool, since=begin, step=length)  # type: ignore[arg-type]  # it is checked there
    if context.terminal.json:
        context.terminal.print_json(msgspec.to_builtins(found))
    else:
        _print(context.terminal, found)


def _print(terminal: Terminal, found: Series) -> None:
    names = list(dict.fromkeys(name for point in found.points for name in point.values))
    columns = [Column("FROM", [at(point.at, fraction=False) for point in found.points], keep=True)]
    for rank, name in enumerate(reversed(names)):
        values = [_shown(found.metric, name, point.values.get(name)) for point in found.points]
        columns.insert(1, Column(name.upper(), values, rank=rank + 1, right=True))
    terminal.out.print(fitted(columns, terminal.out.width))


def _shown(metric: str, name: str, value: float | None) -> str:
    if value is None:
        return ""
    return duration(value) if metric == "latency" and name != "count" else f"{value:g}"
