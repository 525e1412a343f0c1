"""The providers of spans and metrics: those that the program has set, else ones that export over OTLP/HTTP as `OTEL_*` says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.metrics import MeterProvider as OwnMeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider as OwnTracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import TracerProvider

from clicket.errors import UsageError
from clicket.system.bridge import ThreadPool

__all__ = ["flush", "providers"]

logger = logging.getLogger("clicket.telemetry")
_FLUSH_TIMEOUT = 5.0
"""Seconds that a closing runtime waits for the collector. Spans and metrics that are not sent by then are lost."""
_UNSET_METERS = "_ProxyMeterProvider"


def providers(environ: Mapping[str, str]) -> tuple[TracerProvider, MeterProvider]:
    """The program's providers. If it has set none, ours become the global ones, so spans of its tools are exported too."""
    tracers = trace.get_tracer_provider()
    if isinstance(tracers, trace.ProxyTracerProvider):
        spans = _span_exporter(environ)
        own = OwnTracerProvider(resource=_resource(environ), shutdown_on_exit=False)  # `flush` does it, with a timeout
        if spans is not None:
            own.add_span_processor(BatchSpanProcessor(spans))
        trace.set_tracer_provider(own)
        tracers = own
    meters = metrics.get_meter_provider()
    if type(meters).__name__ == _UNSET_METERS:  # the API has no public name for "not set yet"
        exporter = _metric_exporter(environ)
        readers = [] if exporter is None else [PeriodicExportingMetricReader(exporter)]
        meters = OwnMeterProvider(readers, resource=_resource(environ), shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
    return tracers, meters


async def flush(*given: Any) -> None:
    """Send what is pending, with a timeout. The providers stay usable: other runtimes may use them."""
    thread_pool = ThreadPool(1, "clicket-telemetry")

    def send() -> None:
        for provider in given:
            force_flush = getattr(provider, "force_flush", None)
            if force_flush is not None:
                force_flush(int(_FLUSH_TIMEOUT * 1000))

    try:
        async with asyncio.timeout(_FLUSH_TIMEOUT):
            await thread_pool.run(send)
    except TimeoutError:
        logger.warning(
            "the collector did not take the last spans and metrics within %.0f s; they may be lost.", _FLUSH_TIMEOUT
        )
    except Exception:
        logger.exception("the last spans and metrics could not be sent")
    finally:
        thread_pool.close(patience=0.2)


def _resource(environ: Mapping[str, str]) -> Resource:
    named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({} if named else {"service.name": "clicket"})


def _chosen(environ: Mapping[str, str], variable: str) -> str:
    chosen = environ.get(variable, "").strip() or "otlp"
    if chosen not in ("otlp", "console", "none"):
        raise UsageError(
            f"{variable}={chosen!r} is not supported: use otlp (over HTTP), console or none. For other exporters, set the providers "
            "in the program and call clicket.telemetry.instrument(runtime)."
        )
    return chosen


def _span_exporter(environ: Mapping[str, str]) -> SpanExporter | None:
    chosen = _chosen(environ, "OTEL_TRACES_EXPORTER")
    if chosen == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    return ConsoleSpanExporter() if chosen == "console" else None


def _metric_exporter(environ: Mapping[str, str]) -> MetricExporter | None:
    chosen = _chosen(environ, "OTEL_METRICS_EXPORTER")
    if chosen == "otlp":
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        return OTLPMetricExporter()
    return ConsoleMetricExporter() if chosen == "console" else None
