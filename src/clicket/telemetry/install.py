"""Turning telemetry on: for a runtime, by a program that has its own providers; or for an engine, by its settings.

Nothing of OpenTelemetry is imported before somebody asks for it, and a runtime without it does not know that it exists.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from clicket.errors import UsageError
from clicket.journal import Journal, LiveCall

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from clicket.telemetry.otel import Tracing

__all__ = ["Install", "Observable", "instrument", "tracing_for"]

logger = logging.getLogger("clicket.telemetry")
_SAYS_SO = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
)

_UNSET = ("ProxyTracerProvider", "_ProxyMeterProvider", "NoOpTracerProvider", "NoOpMeterProvider")

Enter = Callable[[LiveCall], Callable[[], object]]


class _Surrounded(Protocol):
    around: list[Enter]


class Observable(Protocol):
    """What is watched of an engine."""

    on_close: list[Callable[[], Coroutine[Any, Any, object]]]

    @property
    def journal(self) -> Journal: ...
    @property
    def pipeline(self) -> _Surrounded: ...


Install = Callable[[Observable], None]


def instrument(
    runtime: Any,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    content: bool | None = None,
) -> None:
    """Trace a runtime's calls with OpenTelemetry, from now on or from its opening on; both faces of `Runtime` will do.

    Without providers the program's global ones are used. `content`: write arguments and results into the spans, too, as the
    record has them (None: as the setting `telemetry_content` says). Once more with other providers takes the place of before.
    """
    shows = runtime.settings.telemetry_content if content is None else content
    _needed()  # a program that asks for it hears at once what is missing

    def install(engine: Observable) -> None:
        from clicket.telemetry.otel import Tracing

        _put(engine, Tracing.over(tracer_provider, meter_provider, content=shows))

    runtime.on_open(install)


def tracing_for(mode: str, *, content: bool, environ: Mapping[str, str] | None = None) -> Install | None:
    """What traces an engine's calls, if its settings or OpenTelemetry's own variables say so; else None.

    The program's providers are used if it has set some; else exporters are made as `OTEL_*` says.
    """
    environ = os.environ if environ is None else environ
    if mode == "off" or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if mode == "auto" and not any(environ.get(name) for name in _SAYS_SO):
        return _over_the_programs(content=content) if _program_has_providers() else None
    try:
        _needed()
    except UsageError as missing:
        if mode == "otel":
            raise
        logger.warning("OTEL_* asks for telemetry, but %s", missing)
        return None
    from clicket.telemetry.export import flush, providers
    from clicket.telemetry.otel import Tracing

    tracers, meters = providers(environ)

    def install(engine: Observable) -> None:
        _put(engine, Tracing.over(tracers, meters, content=content))
        engine.on_close.append(lambda: flush(tracers, meters))

    return install


def _program_has_providers() -> bool:
    """Has the program set up OpenTelemetry itself? Only looked for where it has been imported already."""
    traces, meters = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.metrics")
    found = [] if traces is None else [traces.get_tracer_provider()]
    found += [] if meters is None else [meters.get_meter_provider()]
    return any(type(provider).__name__ not in _UNSET for provider in found)


def _over_the_programs(*, content: bool) -> Install:
    """What the program exports is its own affair, and so is when."""

    def install(engine: Observable) -> None:
        from clicket.telemetry.otel import Tracing

        _put(engine, Tracing.over(None, None, content=content))

    return install


def _needed() -> None:
    try:
        import opentelemetry.sdk.trace
        import opentelemetry.trace  # noqa: F401
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"telemetry needs the package {missing.name!r}, which is not installed. "
            "Install it with: pip install 'clicket[telemetry]'."
        ) from None


def _put(engine: Observable, tracing: Tracing) -> None:
    """One tracing for an engine: two would make two spans of every call."""
    from clicket.telemetry.otel import Tracing

    journal, around = engine.journal, engine.pipeline.around
    journal.listeners[:] = [each for each in journal.listeners if not isinstance(each, Tracing)]
    around[:] = [each for each in around if not isinstance(getattr(each, "__self__", None), Tracing)]
    journal.listeners.append(tracing)
    journal.trace = tracing.capture
    around.append(tracing.enter)
