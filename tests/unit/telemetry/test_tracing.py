"""Tracing alone, with entries and their events. It has a span only while this process works on the call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from clicket.kernel import State
from clicket.model import Event
from clicket.telemetry.otel import Tracing


class Traced:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing.over(tracers, find_tool=lambda _: None)

    def spans(self) -> list[dict[str, Any]]:
        return [dict(span.attributes or {}) for span in self.exporter.get_finished_spans()]

    def publish(self, entry: Entry, *events: tuple[str, State]) -> None:
        at = len(entry.events)
        made = [Event("c", at + n, 1.0 + n, kind, state, {}) for n, (kind, state) in enumerate(events, start=1)]
        entry.events += made
        self.tracing(entry, made)  # type: ignore[arg-type]


class Entry(SimpleNamespace):
    __hash__ = object.__hash__


def entry() -> Entry:
    return Entry(
        id="c",
        thread="t",
        caller="",
        tool="add",
        internal=False,
        owned=True,
        attempts=1,
        events=[],
        stages={},
        visible_state=State.RUNNING,
        created_at=1.0,
    )


CREATED, RUNNING, ENDED = (
    ("created", State.PENDING),
    ("state_changed", State.RUNNING),
    ("state_changed", State.COMPLETED),
)


def test_a_span_is_dropped_when_the_call_ends_and_a_late_result_makes_no_other() -> None:
    traced, call = Traced(), entry()
    traced.publish(call, CREATED, RUNNING)
    assert list(traced.tracing.open_spans) == [call]
    traced.publish(call, ENDED)
    assert traced.tracing.open_spans == {}
    traced.publish(call, ("late_result", State.COMPLETED))
    assert [span["clicket.state"] for span in traced.spans()] == ["completed"]


def test_a_span_is_dropped_when_the_call_is_handed_over() -> None:
    traced, call = Traced(), entry()
    traced.publish(call, CREATED, RUNNING)
    call.owned = False
    traced.publish(call, ("state_changed", State.RETRYING))
    assert traced.tracing.open_spans == {}
    assert [span["clicket.handed_over"] for span in traced.spans()] == [True]


def test_a_span_is_ended_when_another_process_has_the_call() -> None:
    traced, call = Traced(), entry()
    traced.publish(call, CREATED, RUNNING)
    traced.tracing.leave(call)  # type: ignore[arg-type]
    traced.tracing.leave(call)  # type: ignore[arg-type]
    assert traced.tracing.open_spans == {}
    assert [span["clicket.handed_over"] for span in traced.spans()] == [True]


def test_a_call_that_is_given_away_at_once_has_no_span_here() -> None:
    traced, call = Traced(), entry()
    call.owned = False
    traced.publish(call, CREATED)
    assert (traced.tracing.open_spans, traced.spans()) == ({}, [])
