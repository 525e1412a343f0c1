"""Requests that belong to somebody's trace: calls made for them become part of it.

with within_trace(request.headers):
    await runtime.call(...)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["within_trace"]


@contextmanager
def within_trace(headers: Mapping[str, str]) -> Iterator[None]:
    """Make the span that `traceparent` (and `tracestate`) name the current one. Nothing, where nobody traces calls, nobody
    named a span, or what was named makes no sense."""
    if "clicket.telemetry.otel" not in sys.modules or not headers.get("traceparent"):
        yield
        return
    from opentelemetry import context, trace

    from clicket.telemetry.otel import parent_in

    parent = parent_in(headers, remote=True)
    if parent is None or trace.get_current_span().get_span_context().trace_id == parent.trace_id:
        yield  # in the latter case a framework has read it already, and its span is nearer
        return
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    try:
        yield
    finally:
        context.detach(token)
