"""`Runtime.report` and `Runtime.anomalies`: what the calls that the runtime sees came to."""

from __future__ import annotations

from typing import Protocol

from clicket.model.ports import Store
from clicket.telemetry import Anomaly, Report, anomalies_in, figures_in, report_of

__all__ = ["anomalies", "report"]


class _Runtime(Protocol):
    _caller: str | None

    @property
    def store(self) -> Store: ...


async def report(runtime: _Runtime, tool: str | None = None, *, since: float | None = None) -> Report:
    """Counts and run times of ended calls by tool, of all processes over the store; unregistered tools are one, `(unknown)`.

    `since` (seconds since the epoch): of calls that were made since then, from the journal, so as far back as it is kept.
    """
    return report_of(await figures_in(runtime.store, caller=runtime._caller, tool=tool, since=since), since=since)


async def anomalies(runtime: _Runtime, tool: str | None = None, *, since: float | None = None) -> list[Anomaly]:
    """Tools under 80 % success or over 30 s on average, with at least 5 runs.

    Refused, cached and cancelled calls are no runs: they say nothing about the tool.
    """
    return anomalies_in(await figures_in(runtime.store, caller=runtime._caller, tool=tool, since=since))
