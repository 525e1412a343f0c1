"""OpenTelemetry in memory: the spans and metrics that a collector would get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler

from clicket.telemetry import instrument


class Collector:
    """Providers in memory, and what they received."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.tracer = self.tracers.get_tracer("the program")

    @classmethod
    def blind(cls) -> Collector:
        """Samples nothing."""
        return cls(ALWAYS_OFF)

    def watch(self, runtime: Any, *, content: bool | None = None) -> Any:
        instrument(runtime, self.tracers, self.meters, content=content)
        return runtime

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def calls(self) -> dict[str, ReadableSpan]:
        """Spans of calls by the call's id; each has one."""
        spans = [span for span in self.spans if facts(span).get("gen_ai.operation.name") == "execute_tool"]
        found = {str(facts(span)["gen_ai.tool.call.id"]): span for span in spans}
        assert len(found) == len(spans), "a call has two spans"
        return found

    def durations(self) -> dict[tuple[str, str | None], Any]:
        """Points of the histogram by tool and error."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        points = [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == "gen_ai.execute_tool.duration" and metric.unit == "s"
            for point in metric.data.data_points
        ]
        return {(str(p.attributes["gen_ai.tool.name"]), p.attributes.get("error.type")): p for p in points}


def facts(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


__all__ = ["Collector", "facts"]
