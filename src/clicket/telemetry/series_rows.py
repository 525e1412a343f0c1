"""Figures of a short time as rows: differences of a store's sums, added up and shown as points of a chart. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Literal

import msgspec

from clicket.kernel import State
from clicket.model.figures import BASE, PER_DOUBLING, Figure
from clicket.telemetry.report import UNKNOWN
from clicket.telemetry.turns import PREFIX

__all__ = [
    "Metric",
    "Queue",
    "Row",
    "SeriesPoint",
    "Slice",
    "Sums",
    "added",
    "grown",
    "kept_sums",
    "point_of",
    "quantile_in",
    "sums_of",
]

Metric = Literal["calls", "errors", "latency", "queue"]
_PER_BIN = PER_DOUBLING // 4
"""Buckets of a figure in one bin here: four bins for each doubling, so a quantile is off by at most 9 %."""
Row = tuple[str, str, str, str, int | None, int, float]
"""Caller, tool, outcome, error code, bin of the run time (None: it has none), number of calls, seconds in all."""
Queue = tuple[str, str, int]
"""Caller, tool, calls that wait to be started."""
_Kind = tuple[str, str, str, str, int | None]
Sums = dict[_Kind, tuple[int, float]]


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one step, which begins at `at` (seconds since the epoch)."""

    at: float
    values: dict[str, float | None]


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one minute or hour."""

    rows: list[Row] = []
    queue: list[Queue] = []
    """At its end."""
    most: list[Queue] = []
    """The longest queue of each; empty: as `queue`."""


def sums_of(figures: Iterable[Figure]) -> Sums:
    """A store's figures with fewer bins, and error codes without types."""
    sums: Sums = {}
    for figure in figures:
        bin = None if figure.bucket is None else ceil(figure.bucket / _PER_BIN)
        kind = (figure.caller, figure.tool, figure.outcome, figure.code, bin)
        count, seconds = sums.get(kind, (0, 0.0))
        sums[kind] = (count + figure.count, seconds + figure.seconds)
    return sums


def kept_sums(rows: Iterable[Row]) -> Sums:
    return {
        (caller, tool, outcome, error, bin): (count, seconds)
        for caller, tool, outcome, error, bin, count, seconds in rows
    }


def grown(before: Sums, after: Sums) -> list[Row]:
    """What was added. Sums that have shrunk, as after a backup was restored, add nothing."""
    rows: list[Row] = []
    for kind, (count, seconds) in after.items():
        known, known_seconds = before.get(kind, (0, 0.0))
        if count > known:
            rows.append((*kind, count - known, max(seconds - known_seconds, 0.0)))
    return rows


def added(slices: Iterable[Slice]) -> Slice:
    """Slices that follow each other as one."""
    sums: Sums = {}
    queue: list[Queue] = []
    most: dict[tuple[str, str], int] = {}
    for each in slices:
        for caller, tool, outcome, error, bin, count, seconds in each.rows:
            kind = (caller, tool, outcome, error, bin)
            known, known_seconds = sums.get(kind, (0, 0.0))
            sums[kind] = (known + count, known_seconds + seconds)
        queue = each.queue
        for caller, tool, length in each.most or each.queue:
            most[caller, tool] = max(most.get((caller, tool), 0), length)
    rows: list[Row] = [(*kind, *sum) for kind, sum in sums.items()]
    return Slice(rows=rows, queue=queue, most=[(*name, length) for name, length in most.items()])


def point_of(metric: Metric, at: float, found: Slice, *, tool: str | None, caller: str | None) -> SeriesPoint:
    """One point, of one tool and one caller or of all. Turns of agents count only under their own name."""
    if metric == "queue":
        now, most = (
            sum(length for whose, name, length in queue if _fits(whose, name, tool, caller))
            for queue in (found.queue, found.most)
        )
        return SeriesPoint(at=at, values={"length": now, "max": max(now, most)})
    rows = [row for row in found.rows if _fits(row[0], row[1], tool, caller)]
    values = {"calls": _calls, "errors": _errors, "latency": _latency}[metric](rows)
    return SeriesPoint(at=at, values=values)


def _fits(whose: str, name: str, tool: str | None, caller: str | None) -> bool:
    if caller is not None and whose != caller:
        return False
    return not name.startswith(PREFIX) if tool is None else (name or UNKNOWN) == tool


def _calls(rows: list[Row]) -> dict[str, float | None]:
    outcomes = [state.value for state in State if state.is_terminal]
    counts = {outcome: sum(row[5] for row in rows if row[2] == outcome) for outcome in outcomes}
    return {**counts, "total": sum(counts.values())}


def _errors(rows: list[Row]) -> dict[str, float | None]:
    counts: dict[str, float | None] = {}
    for *_, error, _, count, _ in rows:
        if error:
            counts[error] = (counts.get(error) or 0) + count
    return {**dict(sorted(counts.items())), "total": sum(count or 0 for count in counts.values())}


def _latency(rows: list[Row]) -> dict[str, float | None]:
    timed: dict[int, int] = {}
    seconds = 0.0
    for *_, bin, count, took in rows:
        if bin is not None:
            timed[bin] = timed.get(bin, 0) + count
            seconds += took
    total = sum(timed.values())
    mean = seconds / total if total else None
    return {"count": total, "mean": mean, "p50": _quantile(timed, total, 0.5), "p95": _quantile(timed, total, 0.95)}


def quantile_in(timed: Mapping[int, int], share: float) -> float | None:
    """The run time that `share` of the runs in these bins do not exceed; None without any."""
    return _quantile(timed, sum(timed.values()), share)


def _quantile(timed: Mapping[int, int], total: int, share: float) -> float | None:
    rank = max(ceil(share * total - 1e-9), 1)
    seen = 0
    for bin in sorted(timed):
        seen += timed[bin]
        if seen >= rank:
            return float(BASE * 2.0 ** ((bin - 0.5) * _PER_BIN / PER_DOUBLING))
    return None
