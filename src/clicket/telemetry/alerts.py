"""Alerts: a tool that fails far more often or is far slower than it usually is, and a budget that is reached.

What a tool did in the last minutes is compared with its own last day, both from the time series, so no call costs more for it. An alert
is raised once and cleared once: it is raised above one bound and cleared below a lower one, after several calm looks, and the same
alert is not raised again soon after. All processes over a store share one document of open alerts. One of them looks, once a minute; it
writes what it found before it announces it, so a process that dies in between is followed by another that announces the same fact.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import sqrt
from typing import Any, Literal

import msgspec

from clicket.kernel import State
from clicket.model.codec import encode
from clicket.model.ports import Store
from clicket.model.spend import BudgetStatus
from clicket.telemetry.series import slices_in
from clicket.telemetry.series_rows import Row, Slice, quantile_in
from clicket.telemetry.turns import PREFIX

__all__ = ["LOOK_EVERY", "Alert", "Alerts", "ToolTimes", "judged", "times_in"]

logger = logging.getLogger("clicket.telemetry")

LOOK_EVERY = 20.0
"""Seconds between two looks at the clock. The store is read in the first look of a minute."""
RECENT = 300
"""Seconds that are judged."""
USUAL = 24 * 3600
"""Seconds before them that say what is usual."""
MINUTE = 60
LEAST_RECENT = 10
LEAST_USUAL = 50
_USUAL_ERRORS = 0.05
"""The share of errors that is assumed of a tool that has not run often enough."""
_LEAST_ERRORS = 0.2
_ERRORS_FACTOR = 3.0
_DEVIATIONS = 4.0
_CALM_ERRORS = 0.1
_SLOW_FACTOR = 3.0
_SLOW_SECONDS = 0.5
_CALM_FACTOR = 1.5
_QUANTILE = 0.9
_USUAL_FOR = 600.0
"""Seconds for which the last day is not read again."""
_CALM_SHARE = 0.9
"""Of a budget: below it, it is not reached any more, because a person raised it."""
_CALM_LOOKS = 3
_QUIET_FOR = 900.0
"""Seconds after an alert is cleared in which the same one is not raised again."""
_MAX_OPEN = 200
_MAX_NEW = 20
"""Alerts that one look raises. If everything fails at once, the first ones say so."""
_KIND, _KEY = "alerts", "open"

AlertKind = Literal["error_rate", "latency", "budget"]
Emit = Callable[..., Awaitable[None]]


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`value` is beyond `limit`; `usual` is what it was on the day before. Rates are shares of 1, latencies seconds (the 90th percentile),
    budgets shares of their limit."""

    kind: AlertKind
    subject: str
    """The tool's name; of a budget its name, scope and period."""
    value: float
    limit: float
    message: str
    usual: float | None = None
    runs: int = 0

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.subject}"


class ToolTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one tool in a time: how many, how many of them failed, and run times by bin."""

    runs: int = 0
    failed: int = 0
    bins: dict[int, int] = {}

    @property
    def errors(self) -> float:
        return self.failed / self.runs if self.runs else 0.0

    @property
    def slow(self) -> float | None:
        """The run time that nine of ten runs do not exceed."""
        return quantile_in(self.bins, _QUANTILE)


class _Open(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An alert on record. `announced`: its last state was announced."""

    alert: Alert
    since: float
    announced: bool = False
    calm: int = 0
    cleared_at: float | None = None


class _Book(msgspec.Struct, kw_only=True):
    minute: int = 0
    open: dict[str, _Open] = {}


# Judging: pure functions.


def times_in(slices: Iterable[Slice]) -> dict[str, ToolTimes]:
    """Runs by tool, of all callers. Calls that did not run, and turns of agents, are left out."""
    counts: dict[str, list[Any]] = {}
    for each in slices:
        for row in each.rows:
            if _is_run(row):
                _, tool, outcome, _, bin, count, _ = row
                found = counts.setdefault(tool, [0, 0, {}])
                found[0] += count
                found[1] += count if outcome != State.COMPLETED else 0
                if bin is not None:
                    found[2][bin] = found[2].get(bin, 0) + count
    return {tool: ToolTimes(runs=runs, failed=failed, bins=bins) for tool, (runs, failed, bins) in counts.items()}


def _is_run(row: Row) -> bool:
    _, tool, outcome, error, bin, _, _ = row
    if not tool or tool.startswith(PREFIX):
        return False
    return error == "outcome_unknown" or (bin is not None and outcome != State.CANCELLED)


def judged(tool: str, recent: ToolTimes, usual: ToolTimes) -> tuple[list[Alert], set[str]]:
    """The alerts that these times raise; and the ids of those that are between the two bounds, neither raised nor calm."""
    raised: list[Alert] = []
    between: set[str] = set()
    expected = usual.errors if usual.runs >= LEAST_USUAL else _USUAL_ERRORS
    if recent.runs >= LEAST_RECENT:
        rate = recent.errors
        limit = max(_LEAST_ERRORS, _ERRORS_FACTOR * expected)
        floor = max(expected, 0.01)
        deviations = (recent.failed - recent.runs * floor) / sqrt(recent.runs * floor * (1.0 - min(floor, 0.99)))
        if rate >= limit and deviations >= _DEVIATIONS:
            text = f"{tool} failed in {rate:.0%} of its last {recent.runs} runs; usual are {expected:.0%}."
            raised.append(
                Alert(
                    kind="error_rate",
                    subject=tool,
                    value=rate,
                    limit=limit,
                    usual=expected,
                    runs=recent.runs,
                    message=f"{text} See `clicket report --tool {tool}`.",
                )
            )
        elif rate >= max(_CALM_ERRORS, _CALM_FACTOR * expected):
            between.add(f"error_rate:{tool}")
    slow = recent.slow
    before = usual.slow if usual.runs >= LEAST_USUAL else None
    if slow is not None and before is not None and recent.runs >= LEAST_RECENT:
        limit = max(_SLOW_FACTOR * before, before + _SLOW_SECONDS)
        if slow >= limit:
            raised.append(
                Alert(
                    kind="latency",
                    subject=tool,
                    value=slow,
                    limit=limit,
                    usual=before,
                    runs=recent.runs,
                    message=f"{tool} takes up to {slow:.3g} s in nine of ten runs; usual are {before:.3g} s.",
                )
            )
        elif slow >= max(_CALM_FACTOR * before, before + _SLOW_SECONDS / 2):
            between.add(f"latency:{tool}")
    return raised, between


def _budgets(statuses: Sequence[BudgetStatus]) -> tuple[list[Alert], set[str]]:
    raised: list[Alert] = []
    between: set[str] = set()
    for status in statuses:
        subject = f"{status.name} {status.scope} {status.period}"
        share = max(_share(status, "usd"), _share(status, "tokens"))
        if share >= 1.0 or status.reached_at is not None:
            text = f"The budget {status.name} ({status.scope}, {status.period}) is reached."
            raised.append(Alert(kind="budget", subject=subject, value=share, limit=1.0, message=text))
        elif share >= _CALM_SHARE:
            between.add(f"budget:{subject}")
    return raised, between


def _share(status: BudgetStatus, unit: str) -> float:
    limit, left = getattr(status, f"limit_{unit}"), getattr(status, f"left_{unit}")
    if limit is None or left is None:
        return 0.0
    whole = limit + getattr(status, f"raised_{unit}")
    return 1.0 if whole <= 0 or left <= 0 else 1.0 - left / whole


class Alerts:
    """`emit(kind, data, key=, at=)` records a notice; repeated with the same key and time it is the same one."""

    def __init__(
        self, store: Store, now: Callable[[], float], emit: Emit, budgets: Callable[[], Awaitable[list[BudgetStatus]]]
    ) -> None:
        self._store = store
        self._now = now
        self._emit = emit
        self._budgets = budgets
        self._looked = -1
        self._usual: dict[str, ToolTimes] = {}
        self._usual_at = -1e9

    async def look(self) -> None:
        """Judge, if no process has done so in this minute, and announce what is on record and not announced."""
        now = self._now()
        minute = int(now // MINUTE * MINUTE)
        if minute == self._looked:
            return
        document = await self._store.document(_KIND, _KEY)
        book = _Book() if document is None else _read(document.body)
        version = 0 if document is None else document.version
        if minute <= book.minute <= minute + 3600 and all(each.announced for each in book.open.values()):
            self._looked = minute
            return
        if book.minute != minute:
            book.minute = minute
            _take(book, *await self._judge(now), now)
            if not await self._store.put_document(_KIND, _KEY, encode(book), version):
                return  # another process looks
            version += 1
        await self._announce(book)
        if await self._store.put_document(_KIND, _KEY, encode(book), version):
            self._looked = minute

    async def _judge(self, now: float) -> tuple[list[Alert], set[str]]:
        start = int((now - RECENT) // MINUTE * MINUTE)
        recent = times_in(each for _, each in await slices_in(self._store, start, now))
        if recent and not 0 <= now - self._usual_at < _USUAL_FOR:
            before = await slices_in(self._store, start - USUAL, now)
            self._usual, self._usual_at = times_in(each for at, each in before if at < start), now
        raised, between = _budgets(await self._budgets())
        for tool, times in sorted(recent.items()):
            more, undecided = judged(tool, times, self._usual.get(tool, ToolTimes()))
            raised += more
            between |= undecided
        return raised, between

    async def _announce(self, book: _Book) -> None:
        for id, each in list(book.open.items()):
            if each.announced:
                continue
            data = {**msgspec.to_builtins(each.alert), "id": id, "since": each.since}
            if each.cleared_at is None:
                logger.warning("alert: %s", each.alert.message)
                await self._emit("alert.raised", {"alert": data}, key=[id, each.since], at=each.since)
            else:
                data["cleared_at"] = each.cleared_at
                await self._emit("alert.cleared", {"alert": data}, key=[id, each.since], at=each.cleared_at)
            each.announced = True


def _take(book: _Book, raised: Sequence[Alert], between: set[str], now: float) -> None:
    """Open, keep and clear alerts. What is neither raised nor between is calm, also if nothing is known of it any more."""
    active = {alert.id: alert for alert in raised}
    for id, each in list(book.open.items()):
        if each.cleared_at is not None:
            if each.announced and now - each.cleared_at >= _QUIET_FOR:
                del book.open[id]
        elif id in active:
            each.alert = active[id]
            each.calm = 0
        elif id in between:
            each.calm = 0
        else:
            each.calm += 1
            if each.calm >= _CALM_LOOKS and each.announced:
                each.cleared_at = now
                each.announced = False
    room = min(_MAX_NEW, _MAX_OPEN - len(book.open))
    for alert in [alert for alert in raised if alert.id not in book.open][: max(room, 0)]:
        book.open[alert.id] = _Open(alert=alert, since=now)


def _read(body: bytes) -> _Book:
    try:
        return msgspec.json.decode(body, type=_Book)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Book()  # another program wrote it
