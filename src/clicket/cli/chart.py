"""Charts of run times: for several tools one sparkline each over a common axis, for one tool a histogram.

The time axis is logarithmic, because tools take microseconds or minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from rich.table import Table
from rich.text import Text

from clicket.cli.formatting import duration
from clicket.cli.terminal import clean
from clicket.model.figures import PER_DOUBLING, Figure, bucket_top, quantile

__all__ = ["bars", "lines"]

_HEIGHTS = " ▁▂▃▄▅▆▇█"
_PLAIN_HEIGHTS = " .:-=+*#@"
_BAR, _PLAIN_BAR = "█", "#"
_PARTS = " ▏▎▍▌▋▊▉"
_MAX_CELLS = 64
_MIN_CELLS = 16
_GREY = "bright_black"


def lines(tools: Mapping[str, Sequence[Figure]], width: int, *, plain: bool) -> Table | None:
    """One sparkline per tool: the height is the number of runs that took that long. None: nothing ran."""
    counts = {name: _counts(figures) for name, figures in tools.items()}
    buckets = [bucket for known in counts.values() for bucket in known]
    if not buckets:
        return None
    low, high = _span(buckets)
    name_width = max(len(name) for name in tools)
    cells = max(min(width - name_width - 36, _MAX_CELLS, high - low + 1), _MIN_CELLS)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style=_GREY, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column(_axis(low, high, cells), no_wrap=True, width=cells)
    for name in ("P50", "P95", "P99"):
        table.add_column(name, no_wrap=True, justify="right")
    for name, figures in tools.items():
        if counts[name]:
            shares = [duration(quantile(figures, share)) for share in (0.5, 0.95, 0.99)]
            table.add_row(Text(clean(name), style="bold"), _line(counts[name], low, high, cells, plain=plain), *shares)
    return table


def bars(figures: Sequence[Figure], width: int, *, plain: bool) -> Table | None:
    """One bar for each doubling of the run time. None: nothing ran."""
    counts = _counts(figures)
    if not counts:
        return None
    doublings: dict[int, int] = {}
    for bucket, count in counts.items():
        top = ceil(bucket / PER_DOUBLING)
        doublings[top] = doublings.get(top, 0) + count
    most = max(doublings.values())
    total = sum(doublings.values())
    cells = max(min(width - 40, _MAX_CELLS), _MIN_CELLS)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(justify="right", no_wrap=True, style=_GREY)
    table.add_column(no_wrap=True, width=cells)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style=_GREY)
    seen = 0
    for top in range(min(doublings), max(doublings) + 1):
        count = doublings.get(top, 0)
        seen += count
        table.add_row(
            f"up to {duration(bucket_top(top * PER_DOUBLING))}",
            Text(_bar(count / most * cells, plain=plain), style="cyan"),
            f"{count:,}",
            f"{seen / total:.1%}",
        )
    return table


def _counts(figures: Sequence[Figure]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for figure in figures:
        if figure.bucket is not None:
            counts[figure.bucket] = counts.get(figure.bucket, 0) + figure.count
    return counts


def _span(buckets: Sequence[int]) -> tuple[int, int]:
    """The buckets from the fastest to the slowest run, at least two doublings."""
    low, high = min(buckets), max(buckets)
    missing = max(2 * PER_DOUBLING - (high - low + 1), 0)
    return low - missing // 2, high + missing - missing // 2


def _axis(low: int, high: int, cells: int) -> Text:
    first, last = duration(bucket_top(low - 1)), duration(bucket_top(high))
    middle = duration(bucket_top((low + high) // 2))
    room = cells - len(first) - len(last)
    if room >= len(middle) + 4:
        left = (cells - len(middle)) // 2 - len(first)
        return Text(first + " " * left + middle + " " * (room - left - len(middle)) + last)
    return Text(first + " " * max(room, 1) + last)


def _line(counts: Mapping[int, int], low: int, high: int, cells: int, *, plain: bool) -> Text:
    columns = [0] * cells
    for bucket, count in counts.items():
        columns[min((bucket - low) * cells // (high - low + 1), cells - 1)] += count
    heights = _PLAIN_HEIGHTS if plain else _HEIGHTS
    most = max(columns)
    steps = len(heights) - 1
    return Text("".join(heights[ceil(column / most * steps)] for column in columns), style="cyan")


def _bar(length: float, *, plain: bool) -> str:
    """A bar. A count above zero is always visible."""
    if plain:
        return _PLAIN_BAR * (max(round(length), 1) if length > 0 else 0)
    whole, part = int(length), int(length % 1 * 8)
    return _BAR * whole + (_PARTS[part] if part else "" if whole or length == 0 else _PARTS[1])
