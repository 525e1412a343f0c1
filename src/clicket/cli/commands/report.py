"""`clicket report`: outcomes, run times and anomalies by tool."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from clicket.cli.chart import bars, lines
from clicket.cli.context import Context
from clicket.cli.formatting import STYLES, duration, parse_duration
from clicket.cli.terminal import Terminal, clean
from clicket.kernel import State
from clicket.model.figures import Figure
from clicket.telemetry import Anomaly, Report, ToolReport, anomalies_in, figures_in, named, report_of

__all__ = ["report"]

_GREY = "bright_black"
_WIDE = 100
_LONG = ("CALLS", "SUCCESS", "FAILED", "TIMEOUT", "CANCELLED", "CACHED", "RATE", "MEAN", "MAX", "MIN")
_MAX_TYPES = 5
_SHORT = ("CALLS", "OK", "FAILED", "TIMEOUT", "CANC.", "CACHED", "RATE", "MEAN", "MAX")
"""On narrow terminals; --json has the rest."""


async def report(
    context: Context,
    tool: Annotated[str | None, typer.Option(help="Only this tool, with all its errors and run times.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only calls made in the last 15m, 24h, …; reads the stored calls."),
    ] = None,
    from_journal: Annotated[
        bool, typer.Option("--from-journal", help="Count the stored calls, instead of reading the totals.")
    ] = False,
) -> None:
    """Show counts, success rates and run times by tool, and anomalies.

    Without --since: the totals of all processes over the store, since it was made. They include calls that retention removed.
    """
    terminal = context.terminal
    begin = time.time() - parse_duration(since) if since is not None else 0.0 if from_journal else None
    figures: list[Figure] = []
    if context.store_exists:
        async with context.watcher() as runtime:
            figures = await figures_in(runtime.store, tool=tool, since=begin)
    found = report_of(figures, since=begin if since is not None else None)
    anomalies = anomalies_in(figures)
    if terminal.json:
        source = "figures" if begin is None else "journal"
        terminal.print_json(
            {
                "source": source,
                "since": found.since,
                "tools": found.tools,
                "totals": found.totals,
                "anomalies": anomalies,
            }
        )
        return
    if not figures:
        terminal.say(_no_calls(context, tool, since), style=_GREY)
        return
    _print(terminal, found, figures, anomalies, alone=tool is not None)
    if since is not None and time.time() - (begin or 0.0) > context.settings.retention.age:
        terminal.say(
            f"calls that ended more than {duration(context.settings.retention.age)} ago may have been removed (`retention`); "
            "the totals without --since include them.",
            style="yellow",
        )


def _no_calls(context: Context, tool: str | None, since: str | None) -> str:
    if not context.store_exists:
        return f"there is no store {context.store_url} yet. {context.store_hint}"
    of = f" of {clean(tool)}" if tool else ""
    return f"no call{of} has ended{f' that was made in the last {since}' if since else ''} yet."


def _print(terminal: Terminal, found: Report, figures: list[Figure], anomalies: list[Anomaly], *, alone: bool) -> None:
    out = terminal.out
    width = terminal.out.width
    plain = terminal.plain
    out.print(_counts(found, width))
    chart = bars(figures, width, plain=plain) if alone else lines(named(figures), width, plain=plain)
    if chart is not None:
        out.print(Text("\nHow long runs took", style="bold"))
        out.print(chart)
    if found.totals.errors:
        out.print(Text("\nErrors", style="bold"))
        out.print(_errors(found))
    if anomalies:
        out.print(Text("\nAnomalies", style="bold"))
        for each in anomalies:
            out.print(Text("! " if plain else "▲ ", style="red").append(clean(each.message), style=""), soft_wrap=True)


def _counts(found: Report, width: int) -> Table:
    narrow = width < _WIDE
    table = Table(box=None, padding=(0, 1 if narrow else 2, 0, 0), header_style=_GREY, pad_edge=False)
    table.add_column("TOOL", no_wrap=True, overflow="ellipsis")
    for name in _SHORT if narrow else _LONG:
        table.add_column(name, justify="right", no_wrap=True)
    rows = list(found.tools.values())
    for each in [*rows, found.totals] if len(rows) > 1 else rows:
        cells = _row(each)
        table.add_row(*cells[: len(table.columns)], style=_GREY if each is found.totals else None)
    return table


def _row(each: ToolReport) -> list[Text | str]:
    ended = (
        (each.success, State.COMPLETED), (each.failed, State.FAILED), (each.timeout, State.TIMEOUT),
        (each.cancelled, State.CANCELLED),
    )  # fmt: skip
    rate = each.success_rate
    return [
        Text(clean(each.tool), style="bold"),
        f"{each.total:,}",
        *(Text(f"{count:,}", style=STYLES[state] if count else _GREY) for count, state in ended),
        Text(f"{each.cached:,}", style="" if each.cached else _GREY),
        "" if rate is None else Text(f"{rate:.1%}", style="" if rate >= 0.8 else "red"),
        duration(each.mean),
        duration(each.max),
        duration(each.min),
    ]


def _errors(found: Report) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    for each in found.tools.values():
        for place, (code, count) in enumerate(each.errors.items()):
            name = Text(clean(each.tool), style="bold") if place == 0 else ""
            table.add_row(name, Text(clean(code), style="red"), Text(f"{count:,}", justify="right"), _types(each, code))
    return table


def _types(each: ToolReport, code: str) -> Text:
    """The exceptions behind a `tool_error`, the most frequent first."""
    if code != "tool_error":
        return Text("")
    shown = [f"{clean(type)} {count:,}" for type, count in list(each.error_types.items())[:_MAX_TYPES]]
    more = len(each.error_types) - _MAX_TYPES
    return Text(", ".join([*shown, f"{more} more types"] if more > 0 else shown), style=_GREY)
