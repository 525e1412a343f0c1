"""The calls that wait for a worker, as gauges of OpenTelemetry. They are read from the store at intervals, not when they are exported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from clicket.model.ports import Backlog
from clicket.telemetry.backlog import by_tool

__all__ = ["observe_queues"]


def observe_queues(
    meters: MeterProvider | None, read: Callable[[], Sequence[Backlog]], now: Callable[[], float]
) -> None:
    """`read`: the queues as they were read last; nothing once the runtime has closed."""
    meter = metrics.get_meter("clicket", meter_provider=meters)

    def lengths(options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(count, {"gen_ai.tool.name": tool}) for tool, (count, _) in by_tool(read()).items()]

    def waits(options: CallbackOptions) -> Iterable[Observation]:
        found = by_tool(read()).items()
        return [Observation(max(now() - oldest, 0.0), {"gen_ai.tool.name": tool}) for tool, (_, oldest) in found]

    meter.create_observable_gauge(
        "clicket.queue.length", [lengths], unit="{call}", description="Calls that wait for a worker."
    )
    meter.create_observable_gauge(
        "clicket.queue.oldest", [waits], unit="s", description="How long the oldest of them has waited."
    )
