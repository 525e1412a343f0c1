"""Turns tracing on, by the program (`instrument`) or by the runtime's settings (`tracing_for`), and continues the trace of a
request (`within_trace`). OpenTelemetry is imported only when tracing is turned on.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from clicket.engine.journal import Observers
from clicket.errors import UsageError
from clicket.model.ports import Backlog
from clicket.tools import Registry

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from clicket.telemetry.otel import Tracing

__all__ = ["Observed", "TracingSetup", "instrument", "tracing_for", "within_trace"]

logger = logging.getLogger("clicket.telemetry")
_EXPORT_VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
)
"""Variables of OpenTelemetry that ask for an export."""
_UNSET = ("ProxyTracerProvider", "_ProxyMeterProvider", "NoOpTracerProvider", "NoOpMeterProvider")


class Observed(Protocol):
    """What telemetry needs of a runtime, open or not: a `clicket.Runtime` or `clicket.sync.Runtime`."""

    @property
    def settings(self) -> Any: ...
    @property
    def registry(self) -> Registry: ...
    @property
    def observers(self) -> Observers: ...


class TracingSetup(msgspec.Struct, frozen=True, kw_only=True):
    """Tracing as a runtime's settings ask for it."""

    tracer_provider: Any = None
    """None: the program's global one."""
    meter_provider: Any = None
    content: bool = False
    flush: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Awaited when the runtime closes; None: the program exports by itself."""

    def install(self, observers: Observers, registry: Registry) -> None:
        """Trace the calls, unless `instrument` or an earlier opening of the runtime installed tracing already."""
        from clicket.telemetry.otel import Tracing

        if not any(isinstance(listener, Tracing) for listener in observers.listeners):
            tracing = Tracing.over(
                self.tracer_provider, self.meter_provider, content=self.content, find_tool=registry.get
            )
            _replace_tracing(observers, tracing)

    def observe_queues(self, read: Callable[[], Sequence[Backlog]], now: Callable[[], float]) -> None:
        """Export the queue of calls that wait for a worker, as `read` returns it."""
        from clicket.telemetry.queue_gauges import observe_queues

        observe_queues(self.meter_provider, read, now)


def instrument(
    runtime: Observed,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    content: bool | None = None,
) -> None:
    """Trace a runtime's calls with OpenTelemetry from now on. The runtime may be open or not, async or blocking.

    Without providers, the program's global ones are used. `content`: also write arguments and results into the spans, as they are
    on record (None: as the setting `telemetry_content` says). A second call replaces the providers of the first.
    """
    with_content = runtime.settings.telemetry.content if content is None else content
    _require_opentelemetry()
    from clicket.telemetry.otel import Tracing

    tracing = Tracing.over(tracer_provider, meter_provider, content=with_content, find_tool=runtime.registry.get)
    _replace_tracing(runtime.observers, tracing)


def tracing_for(mode: str, *, content: bool, environ: Mapping[str, str] | None = None) -> TracingSetup | None:
    """The tracing that the setting `telemetry` or OpenTelemetry's own variables ask for; None: none.

    The program's providers are used if it has set some; else exporters are made as `OTEL_*` says.
    """
    environ = os.environ if environ is None else environ
    if mode == "off" or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if mode == "auto" and not any(environ.get(name) for name in _EXPORT_VARIABLES):
        return TracingSetup(content=content) if _program_has_providers() else None
    try:
        _require_opentelemetry()
    except UsageError as missing:
        if mode == "otel":
            raise
        logger.warning("OTEL_* asks for telemetry, but %s", missing)
        return None
    from clicket.telemetry.export import flush, providers

    tracers, meters = providers(environ)
    return TracingSetup(
        tracer_provider=tracers, meter_provider=meters, content=content, flush=lambda: flush(tracers, meters)
    )


@contextmanager
def within_trace(headers: Mapping[str, str]) -> Iterator[None]:
    """Calls that are made in this context become part of the trace that `traceparent` and `tracestate` name. Without tracing, or
    without a valid `traceparent`, it does nothing: `with within_trace(request.headers): await runtime.call(...)`."""
    if "clicket.telemetry.otel" not in sys.modules or not headers.get("traceparent"):
        yield
        return
    from opentelemetry import context, trace

    from clicket.telemetry.otel import parent_in

    parent = parent_in(headers, remote=True)
    if parent is None or trace.get_current_span().get_span_context().trace_id == parent.trace_id:
        yield  # in the latter case a framework has made a span for the request already
        return
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    try:
        yield
    finally:
        context.detach(token)


def _program_has_providers() -> bool:
    """Has the program set up OpenTelemetry itself? False if it has not imported it."""
    traces, meters = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.metrics")
    found = [] if traces is None else [traces.get_tracer_provider()]
    found += [] if meters is None else [meters.get_meter_provider()]
    return any(type(provider).__name__ not in _UNSET for provider in found)


def _require_opentelemetry() -> None:
    try:
        import opentelemetry.sdk.trace
        import opentelemetry.trace  # noqa: F401
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"telemetry needs the package {missing.name!r}, which is not installed. "
            "Install it with: pip install 'clicket[telemetry]'."
        ) from None


def _replace_tracing(observers: Observers, tracing: Tracing) -> None:
    """Replace installed tracing: two would make two spans for every call."""
    from clicket.telemetry.otel import Tracing

    observers.listeners[:] = [each for each in observers.listeners if not isinstance(each, Tracing)]
    both: tuple[list[Any], list[Any]] = (observers.around, observers.left)
    for hooks in both:
        hooks[:] = [each for each in hooks if not isinstance(getattr(each, "__self__", None), Tracing)]
    observers.add(tracing)
    observers.around.append(tracing.enter)
    observers.left.append(tracing.leave)
    observers.trace = tracing.capture
