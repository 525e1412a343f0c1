"""Makes a report and anomalies from figures. Pure functions: nothing here reads the store."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from clicket.kernel import State
from clicket.model.figures import Figure, quantile

__all__ = ["ALL", "LEAST_RUNS", "UNKNOWN", "Anomaly", "Report", "ToolReport", "anomalies_in", "named", "report_of"]

UNKNOWN = "(unknown)"
"""The name under which calls of unregistered tools are counted: callers could invent any number of names."""
ALL = "(all)"
LEAST_RUNS = 5
_LEAST_SUCCESS = 0.8
_MOST_SECONDS = 30.0


class ToolReport(msgspec.Struct, frozen=True, kw_only=True):
    """The ended calls of one tool. Durations are seconds from the first attempt to the end of the last, waits between them included,
    also of calls that failed; None: no call has one."""

    tool: str
    total: int = 0
    success: int = 0
    failed: int = 0
    timeout: int = 0
    cancelled: int = 0
    success_rate: float | None = None
    """The share of `total` that completed, 0 to 1; None without any call."""
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    p50: float | None = None
    """Quantiles are exact to 2.2 %, however many processes and days are added up."""
    p95: float | None = None
    p99: float | None = None
    errors: dict[str, int] = {}
    """How often each error code ended a call; timeouts and cancels have theirs."""
    error_types: dict[str, int] = {}
    """How often an exception of each type ended a call: `tool_error` by the class that the tool raised."""
    cached: int = 0
    """Completed calls that were served from the cache; they have no run time."""
    runs: int = 0
    """The calls that count for anomalies; see `anomalies_in`."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Ended calls by tool, and all together. `since` None: since the store was made."""

    tools: dict[str, ToolReport]
    totals: ToolReport
    since: float | None = None


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that fails often or is slow. `kind` is `success_rate` or `mean`; `value` is beyond `limit`, over `runs` runs and tries."""

    tool: str
    kind: str
    value: float
    limit: float
    runs: int
    message: str


def report_of(figures: Iterable[Figure], *, since: float | None = None) -> Report:
    """The report of these figures; their order does not matter."""
    figures = list(figures)
    tools = {name: _tool(name, group) for name, group in named(figures).items()}
    return Report(tools=tools, totals=_tool(ALL, figures), since=since)


def anomalies_in(figures: Iterable[Figure]) -> list[Anomaly]:
    """Tools under 80 % success or over 30 s on average, with at least 5 runs.

    A run is a call in which the tool's code completed, failed or timed out, or whose process died (`outcome_unknown`). Calls that
    were refused, served from the cache, or cancelled are not runs: they say nothing about the tool. So the rate here may differ
    from the report's, which is over all calls.

    Calls refused as `tool_unavailable` count among the five, though not in the rate: the hub takes a failing tool out of service,
    and it must still be reported.
    """
    found: list[Anomaly] = []
    for name, group in named(figures).items():
        runs = [figure for figure in group if _is_run(figure)]
        count = sum(figure.count for figure in runs)
        tries = count + sum(figure.count for figure in group if figure.code == "tool_unavailable")
        if count and tries >= LEAST_RUNS:
            rate = sum(figure.count for figure in runs if figure.outcome == State.COMPLETED) / count
            if rate < _LEAST_SUCCESS:
                found.append(_failing(name, rate, count, tries - count))
        timed = [figure for figure in runs if figure.bucket is not None]
        count = sum(figure.count for figure in timed)
        if count >= LEAST_RUNS:
            mean = sum(figure.seconds for figure in timed) / count
            if mean > _MOST_SECONDS:
                found.append(_slow(name, mean, count))
    return found


def named(figures: Iterable[Figure]) -> dict[str, list[Figure]]:
    """Figures by the name under which their tool is shown, sorted by name."""
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(figure.tool or UNKNOWN, []).append(figure)
    return dict(sorted(groups.items()))


def _is_run(figure: Figure) -> bool:
    if figure.code == "outcome_unknown":  # its process died, so its run time is not known
        return True
    return figure.bucket is not None and figure.outcome != State.CANCELLED


def _tool(name: str, figures: list[Figure]) -> ToolReport:
    total = sum(figure.count for figure in figures)
    ended = dict.fromkeys((State.COMPLETED, State.FAILED, State.TIMEOUT, State.CANCELLED), 0)
    errors: dict[str, int] = {}
    types: dict[str, int] = {}
    for figure in figures:
        ended[State(figure.outcome)] += figure.count
        if figure.error:
            errors[figure.code] = errors.get(figure.code, 0) + figure.count
        if figure.error_type:
            types[figure.error_type] = types.get(figure.error_type, 0) + figure.count
    timed = [figure for figure in figures if figure.bucket is not None]
    count = sum(figure.count for figure in timed)
    return ToolReport(
        tool=name,
        total=total,
        success=ended[State.COMPLETED],
        failed=ended[State.FAILED],
        timeout=ended[State.TIMEOUT],
        cancelled=ended[State.CANCELLED],
        success_rate=ended[State.COMPLETED] / total if total else None,
        mean=sum(figure.seconds for figure in timed) / count if count else None,
        min=min((figure.least for figure in timed), default=None),
        max=max((figure.most for figure in timed), default=None),
        p50=quantile(timed, 0.5),
        p95=quantile(timed, 0.95),
        p99=quantile(timed, 0.99),
        errors=_most_first(errors),
        error_types=_most_first(types),
        cached=sum(f.count for f in figures if f.outcome == State.COMPLETED and f.bucket is None),
        runs=sum(figure.count for figure in figures if _is_run(figure)),
    )


def _most_first(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _failing(tool: str, rate: float, runs: int, refused: int) -> Anomaly:
    more = f" ({refused} more calls found it out of service)" if refused else ""
    return Anomaly(
        tool=tool,
        kind="success_rate",
        value=rate,
        limit=_LEAST_SUCCESS,
        runs=runs + refused,
        message=f"{tool} succeeded in {rate:.0%} of {runs} runs{more}, under {_LEAST_SUCCESS:.0%}. "
        f"See its errors with `clicket report --tool {tool}`, its calls with `clicket ps --all --tool {tool}`.",
    )


def _slow(tool: str, mean: float, runs: int) -> Anomaly:
    return Anomaly(
        tool=tool,
        kind="mean",
        value=mean,
        limit=_MOST_SECONDS,
        runs=runs,
        message=f"{tool} took {mean:.1f} s on average over {runs} runs, more than {_MOST_SECONDS:.0f} s. "
        "Make it faster, or give it a shorter timeout.",
    )
