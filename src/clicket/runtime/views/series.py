"""`Runtime.series`: time series of the calls that the runtime sees."""

from __future__ import annotations

from typing import Protocol

from clicket.engine import Engine
from clicket.telemetry.series import Series, series_in
from clicket.telemetry.series_rows import Metric

__all__ = ["series"]


class _Runtime(Protocol):
    _caller: str | None

    @property
    def _opened(self) -> Engine: ...


async def series(
    runtime: _Runtime,
    metric: Metric = "calls",
    *,
    tool: str | None = None,
    since: float | None = None,
    until: float | None = None,
    step: int = 60,
) -> Series:
    """How many calls ended, with which errors, how long they took, or how many waited, in steps of `step` seconds: of all processes over
    the store, also of those that have ended. `metric`: `calls`, `errors`, `latency` or `queue`; see `Series`.

    `since` and `until` are seconds since the epoch; the last hour if left out. The step is a multiple of 60, up to a day, and there are at
    most 2,000 steps. Times older than a day are kept by the hour, for `series_retention` seconds. Quantiles are exact to 9 %.
    """
    engine = runtime._opened
    return await series_in(
        engine.store,
        metric,
        now=engine.clock.now(),
        caller=runtime._caller,
        tool=tool,
        since=since,
        until=until,
        step=step,
    )
