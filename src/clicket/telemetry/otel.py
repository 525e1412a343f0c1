"""Calls as OpenTelemetry spans, `execute_tool {name}`, made from durable events of the journal.

Attributes have the names of the GenAI conventions; names that these lack begin with `clicket.`. The caller's span is the parent: its
`traceparent` is in the call's first event, so every process that runs the call knows it. Arguments and results are left out by
default; with `content` they are written as they are on record, with secrets masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from opentelemetry import context, metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TracerProvider
from opentelemetry.trace.span import TraceState

from clicket.engine.journal import Entry
from clicket.kernel import State
from clicket.model import Event, fold
from clicket.model.ids import agent_of
from clicket.model.ports.model_trace import MODEL_TRACE, ModelTrace
from clicket.telemetry.model_spans import ModelSpans
from clicket.telemetry.turns import PREFIX, ended_in
from clicket.tools import Tool
from clicket.tools.rest import RestTool

__all__ = ["Tracing", "parent_in"]

_SCOPE = "clicket"
_DURATION = "gen_ai.execute_tool.duration"
_BOUNDS = tuple(0.01 * 2**n for n in range(14))
_LONGEST = 1_024
_LARGEST = 64 * 1024
_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SHOWN = frozenset({"attempt_started", "approval_requested", "approval_given", "cancel_requested"})
_CHANGES = frozenset({State.STREAMING, State.RETRYING})
"""The events that become events of the span. A span event costs as much as the rest of a fast call, so the states that every call
goes through are left out. Stages are attributes, and output is content."""

FindTool = Callable[[str], Tool | None]


class Tracing:
    """A listener of the journal. It has one open span for each call that this process works on.

    `find_tool` looks up a tool by its name, for the span's attributes.
    """

    def __init__(
        self,
        tracer: trace.Tracer,
        duration: metrics.Histogram,
        *,
        find_tool: FindTool,
        content: bool = False,
        models: ModelTrace | None = None,
    ) -> None:
        self._tracer = tracer
        self._duration = duration
        self._find_tool = find_tool
        self._content = content
        self._models = models
        self.open_spans: dict[Entry, Span] = {}

    @classmethod
    def over(
        cls,
        tracers: TracerProvider | None = None,
        meters: MeterProvider | None = None,
        *,
        find_tool: FindTool,
        content: bool = False,
    ) -> Tracing:
        """Tracing with these providers, or with the program's global ones."""
        tracer = trace.get_tracer(_SCOPE, tracer_provider=tracers)
        meter = metrics.get_meter(_SCOPE, meter_provider=meters)
        duration = meter.create_histogram(
            _DURATION, unit="s", description="How long tools ran.", explicit_bucket_boundaries_advisory=_BOUNDS
        )
        models = ModelSpans.over(tracer, meter, content=content)
        return cls(tracer, duration, find_tool=find_tool, content=content, models=models)

    def capture(self) -> dict[str, str]:
        """The current span as fields of a call's first event."""
        current = trace.get_current_span().get_span_context()
        if not current.is_valid:
            return {}
        parent = f"00-{current.trace_id:032x}-{current.span_id:016x}-{current.trace_flags:02x}"
        state = current.trace_state.to_header()
        return {"traceparent": parent, "tracestate": state} if state else {"traceparent": parent}

    def enter(self, entry: Entry) -> Callable[[], object]:
        """Make the call's span the current one, so that spans of the tool's code, and of requests to models, are its children."""
        span = self.open_spans.get(entry) or trace.get_current_span()
        token = context.attach(trace.set_span_in_context(span))
        models = MODEL_TRACE.set(self._models)

        def leave() -> None:
            with suppress(ValueError):  # the body went on in another context, which ends with it
                MODEL_TRACE.reset(models)
            context.detach(token)

        return leave

    def __call__(self, entry: Entry, events: Sequence[Event]) -> None:
        first = events[0]
        end = next((event for event in events if event.is_terminal), None)
        if first.state.is_terminal and not first.is_terminal:  # a late result: the call's span has ended
            return
        hands_over = not entry.owned and end is None
        span = self.open_spans.get(entry)
        if span is None:
            if hands_over:  # the process that takes the call makes its span
                return
            span = self.open_spans[entry] = self._begin(entry, events)
        if span.is_recording():
            for event in events:
                if event.type in _SHOWN or (event.type == "state_changed" and event.state in _CHANGES):
                    span.add_event(event.type, _event_attributes(event), _ns(event.at))
        if end is not None:
            del self.open_spans[entry]
            self._end(entry, span, end)
        elif hands_over:
            del self.open_spans[entry]
            span.set_attributes({"clicket.state": events[-1].state.value, "clicket.handed_over": True})
            span.end(_ns(events[-1].at))

    def leave(self, entry: Entry) -> None:
        """Another process has taken the call: end the span of this process."""
        span = self.open_spans.pop(entry, None)
        if span is not None:
            span.set_attributes({"clicket.state": entry.visible_state.value, "clicket.handed_over": True})
            span.end()

    def _begin(self, entry: Entry, events: Sequence[Event]) -> Span:
        first = entry.events[0]
        name = entry.tool
        agent = name.removeprefix(PREFIX) if entry.internal and name.startswith(PREFIX) else ""
        ours = events[0] is first
        again = any(event.type == "note" and "claims" in event.data for event in entry.events)
        parent = parent_in(first.data, remote=not ours)
        attributes = _of_turn(entry, agent) if agent else _of_tool(entry, self._find_tool(name))
        if entry.caller:
            attributes["clicket.caller"] = entry.caller
        if again:
            attributes["clicket.recovered"] = True
        return self._tracer.start_span(
            f"invoke_agent {agent}" if agent else f"execute_tool {name}",
            context=context.Context() if parent is None else trace.set_span_in_context(trace.NonRecordingSpan(parent)),
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            links=[Link(parent)] if again and parent is not None else (),
            start_time=_ns(events[0].at if again else entry.created_at),
        )

    def _end(self, entry: Entry, span: Span, end: Event) -> None:
        error = end.data.get("error")
        code = error["code"] if error else None
        took = None if end.data.get("cached") else dict(entry.stages).get("execute")
        if took is not None and not entry.internal:
            labels = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": entry.tool}
            if code is not None:
                labels["error.type"] = code
            self._duration.record(took.duration, labels, trace.set_span_in_context(span))
        if not span.is_recording():
            return
        span.set_attributes(
            {
                "clicket.state": end.state.value,
                "clicket.attempts": sum(event.type == "attempt_started" for event in entry.events),
                "clicket.cached": bool(end.data.get("cached")),
                **{f"clicket.stage.{name}": stage.duration for name, stage in entry.stages.items()},
            }
        )
        if entry.internal:
            span.set_attributes(_outcome_of_turn(entry))
        metadata = end.data.get("metadata") or {}
        if "phase" in metadata:
            span.set_attribute("clicket.timeout.phase", metadata["phase"])
        if metadata.get("abandoned"):
            span.set_attribute("clicket.abandoned", True)
        if error:
            span.set_attributes({"error.type": error["code"], "clicket.error.type": error.get("type") or ""})
            span.set_status(Status(StatusCode.ERROR, str(error.get("message") or "")[:_LONGEST]))
        if self._content:
            self._add_content(entry, span)
        span.end(_ns(end.at))

    def _add_content(self, entry: Entry, span: Span) -> None:
        record = fold(entry.events)
        if record.arguments is not None:
            span.set_attribute("gen_ai.tool.call.arguments", _text(record.arguments))
        if record.success:
            shown = record.content if record.truncated else _text(record.output)
            span.set_attribute("gen_ai.tool.call.result", shown[:_LARGEST])


def _of_tool(entry: Entry, tool: Tool | None) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": entry.tool,
        "gen_ai.tool.call.id": entry.id,
        "gen_ai.tool.type": "extension" if isinstance(tool, RestTool) else "function",
        "gen_ai.conversation.id": entry.thread,
        "clicket.thread": entry.thread,
    }
    agent = agent_of(entry.id)
    if agent:
        attributes["gen_ai.agent.name"] = agent
    if tool is not None and tool.description:
        attributes["gen_ai.tool.description"] = tool.description[:_LONGEST]
    return attributes


def _of_turn(entry: Entry, agent: str) -> dict[str, Any]:
    """A turn is a call in an internal thread. The span names the thread of the agent instead."""
    arguments = entry.events[0].data.get("arguments")
    thread = arguments.get("thread") if isinstance(arguments, dict) else None
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": thread or entry.thread,
        "clicket.thread": thread or entry.thread,
        "clicket.turn": entry.id,
    }


def _outcome_of_turn(entry: Entry) -> dict[str, Any]:
    ended = ended_in(entry.events)
    if ended is None:
        return {}
    usage = ended.get("usage") or {}
    return {
        "gen_ai.usage.input_tokens": usage.get("input_tokens", 0),
        "gen_ai.usage.output_tokens": usage.get("output_tokens", 0),
        "gen_ai.usage.cache_read.input_tokens": usage.get("cached_tokens", 0),
        "gen_ai.usage.cache_creation.input_tokens": usage.get("cache_write_tokens", 0),
        "clicket.agent.stopped": str(ended.get("stopped") or ended.get("state") or ""),
        "clicket.agent.ended": str(ended.get("ended") or ""),
        "clicket.agent.steps": ended.get("steps", 0),
        "clicket.agent.cost": usage.get("cost", 0.0),
    }


def _event_attributes(event: Event) -> dict[str, Any]:
    """Attributes of a span event, without content."""
    data = event.data
    facts = {"clicket.seq": event.seq, "clicket.state": event.state.value}
    if "attempt" in data:
        facts["clicket.attempt"] = data["attempt"]
    if data.get("error"):
        facts["error.type"] = data["error"]["code"]
    if data.get("delay") is not None:
        facts["clicket.delay"] = data["delay"]
    if "approved" in data:
        facts["clicket.approved"] = bool(data["approved"])
    return facts


def parent_in(data: Mapping[str, Any], *, remote: bool) -> SpanContext | None:
    """The span that a call's first event or a request's headers name; None if the text is not valid. It is untrusted."""
    match = _PARENT.fullmatch(str(data.get("traceparent") or ""))
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    state = TraceState.from_header([str(data["tracestate"])]) if data.get("tracestate") else None
    found = SpanContext(trace_id, span_id, is_remote=remote, trace_flags=TraceFlags(flags), trace_state=state)
    return found if found.is_valid else None


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_LARGEST]


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
