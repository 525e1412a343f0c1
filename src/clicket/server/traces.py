"""Requests that carry a trace: calls that are made for them become part of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from clicket.telemetry import within_trace

__all__ = ["traced"]

_NAMES = (b"traceparent", b"tracestate")
_UNTRACED = nullcontext()


def traced(headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[None]:
    """Around the making of calls. Costs a look at the headers where there is no `traceparent`."""
    named = {name.decode(): value.decode("latin-1") for name, value in headers if name in _NAMES}
    return within_trace(named) if "traceparent" in named else _UNTRACED
