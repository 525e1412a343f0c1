"""Requests to models as OpenTelemetry spans: `chat {model}`, and `plan {agent}` around those of a planner.

Names are those of the GenAI conventions. A span is the current one while its request is under way, so that spans of an HTTP client are its
children; the turn's span is its parent. Each attempt has a span of its own. Messages are left out by default; with `content` they are
written with secrets masked, the last ones if they are long.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from clicket import system
from clicket.errors import ClicketError, RetryableError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest
from clicket.model.codec import clean
from clicket.model.ports import ChatModel
from clicket.model.ports.model_trace import Masks, Note
from clicket.safety.vault import hide_text

__all__ = ["ModelSpans"]

_BOUNDS = tuple(0.01 * 2**n for n in range(14))
_TOKEN_BOUNDS = tuple(4**n for n in range(14))
_LONGEST = 1_024
_MAX_PART = 8 * 1024
_MAX_CONTENT = 64 * 1024
_NAME = re.compile(r"[^\W\d][\w.]{0,79}")
_OTHER = "_OTHER"
"""The conventions' value for an error without a short name."""
_GENERIC = (ClicketError.code, RetryableError.code)


class ModelSpans:
    """Implements `model.ports.model_trace.ModelTrace`."""

    def __init__(
        self, tracer: trace.Tracer, duration: metrics.Histogram, tokens: metrics.Histogram, *, content: bool = False
    ) -> None:
        self._tracer = tracer
        self._duration = duration
        self._tokens = tokens
        self._content = content

    @classmethod
    def over(cls, tracer: trace.Tracer, meter: metrics.Meter, *, content: bool = False) -> ModelSpans:
        duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="How long requests to models took.",
            explicit_bucket_boundaries_advisory=_BOUNDS,
        )
        tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens that models read and wrote.",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS,
        )
        return cls(tracer, duration, tokens, content=content)

    @contextmanager
    def request(
        self,
        model: ChatModel,
        request: ChatRequest,
        *,
        agent: str = "",
        thread: str = "",
        streamed: bool = False,
        mask: Masks | None = None,
        tried: Sequence[str] = (),
    ) -> Iterator[_Request]:
        labels = _labels(model)
        made = _Request(labels)
        span = self._tracer.start_span(
            f"chat {labels['gen_ai.request.model']}",
            kind=SpanKind.CLIENT,
            attributes={**labels, **_asked(request, agent, thread, streamed=streamed)},
        )
        if tried:
            span.set_attribute("clicket.tried", tuple(map(_short, tried)))
        if self._content and span.is_recording():
            span.set_attributes(_content_of(request, mask))
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield made
        except BaseException as error:
            _failed(span, error)
            self._duration.record(made.seconds, {**made.labels, "error.type": _error_type(error)})
            raise
        else:
            self._duration.record(made.seconds, made.labels)
            self._end(span, made, mask)
        finally:
            span.end()

    def _end(self, span: Span, made: _Request, mask: Masks | None) -> None:
        reply = made.reply
        if reply is None:
            return
        for kind, count in (("input", reply.usage.input_tokens), ("output", reply.usage.output_tokens)):
            if count:
                self._tokens.record(count, {**made.labels, "gen_ai.token.type": kind})
        if span.is_recording():
            span.set_attributes(_replied(reply, made.first))
            if self._content:
                span.set_attribute("gen_ai.output.messages", _json([_output(reply, mask)]))

    @contextmanager
    def part(self, kind: str, name: str, agent: str, thread: str) -> Iterator[Note]:
        span = self._tracer.start_span(
            f"{kind} {name}",
            kind=SpanKind.INTERNAL,
            attributes={
                "gen_ai.operation.name": kind,
                "gen_ai.agent.name": agent,
                "gen_ai.conversation.id": thread,
            },
        )
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield span.set_attribute
        except BaseException as error:
            _failed(span, error)
            raise
        finally:
            span.end()


class _Request:
    """Implements `model.ports.model_trace.ModelSpan`."""

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self.reply: ChatReply | None = None
        self.first: float | None = None
        self._started = system.monotonic()

    @property
    def seconds(self) -> float:
        return system.monotonic() - self._started

    def first_piece(self) -> None:
        if self.first is None:
            self.first = self.seconds

    def replied(self, reply: ChatReply) -> None:
        if isinstance(reply, ChatReply):  # a model of the program may return anything
            self.reply = reply
            if reply.model:
                self.labels = {**self.labels, "gen_ai.response.model": _short(reply.model)}


def _labels(model: ChatModel) -> dict[str, str]:
    """What tells models apart in metrics: of few different values."""
    name = getattr(model, "name", None)
    provider, _, rest = name.partition(":") if isinstance(name, str) else (type(model).__name__, "", "")
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _short(provider) or _OTHER,
        "gen_ai.request.model": _short(rest or provider) or _OTHER,
    }


def _asked(request: ChatRequest, agent: str, thread: str, *, streamed: bool) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if agent:
        asked["gen_ai.agent.name"] = agent
    if thread:
        asked["gen_ai.conversation.id"] = thread
    if request.max_tokens is not None:
        asked["gen_ai.request.max_tokens"] = request.max_tokens
    if request.schema is not None:
        asked["gen_ai.output.type"] = "json"
    if streamed:
        asked["gen_ai.request.stream"] = True
    return asked


def _replied(reply: ChatReply, first: float | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "gen_ai.response.finish_reasons": [_finish_reason(reply)],
        "gen_ai.usage.input_tokens": reply.usage.input_tokens,
        "gen_ai.usage.output_tokens": reply.usage.output_tokens,
    }
    if reply.usage.cached_tokens:
        facts["gen_ai.usage.cache_read.input_tokens"] = reply.usage.cached_tokens
    if reply.usage.cache_write_tokens:
        facts["gen_ai.usage.cache_creation.input_tokens"] = reply.usage.cache_write_tokens
    if reply.usage.reasoning_tokens:
        facts["gen_ai.usage.reasoning.output_tokens"] = reply.usage.reasoning_tokens
    if reply.usage.cost:
        facts["clicket.cost"] = reply.usage.cost
    if reply.id:
        facts["gen_ai.response.id"] = _short(reply.id)
    if reply.model:
        facts["gen_ai.response.model"] = _short(reply.model)
    if first is not None:
        facts["gen_ai.response.time_to_first_chunk"] = first
    return facts


def _finish_reason(reply: ChatReply) -> str:
    if reply.ended == "stop" and reply.uses:
        return "tool_call"
    return {"stop": "stop", "length": "length", "refusal": "content_filter"}[reply.ended]


def _failed(span: Span, error: BaseException) -> None:
    kind = _error_type(error)
    text = error.message if isinstance(error, ClicketError) else kind
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, hide_text(clean(text))[:_LONGEST]))


def _error_type(error: BaseException) -> str:
    """A name of which there are few: our code, or the name of the exception's class."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, ClicketError) and error.code not in _GENERIC:
        return error.code
    name = type(error).__name__
    return name if _NAME.fullmatch(name) else _OTHER


# Content, in the conventions' form.


def _content_of(request: ChatRequest, mask: Masks | None) -> dict[str, str]:
    system = [message for message in request.messages if message.role == "system"]
    content = {
        "gen_ai.input.messages": _json(_last([_input(each, mask) for each in request.messages if each not in system]))
    }
    if system:
        content["gen_ai.system_instructions"] = _json([_text(each.content) for each in system])
    if request.tools:
        tools = [{"type": "function", "name": offer.name} for offer in request.tools if not offer.deferred]
        content["gen_ai.tool.definitions"] = _json(tools)
    return content


def _input(message: ChatMessage, mask: Masks | None) -> dict[str, Any]:
    shown = message if mask is None else mask(message)
    if shown.role == "tool":
        part = {"type": "tool_call_response", "id": shown.use_id, "response": _bounded(shown.content)}
        return {"role": "tool", "parts": [part]}
    return {"role": shown.role, "parts": _parts(shown)}


def _output(reply: ChatReply, mask: Masks | None) -> dict[str, Any]:
    message = ChatMessage(role="assistant", content=reply.text, uses=reply.uses, thought=reply.thought)
    shown = message if mask is None else mask(message)
    return {"role": "assistant", "parts": _parts(shown), "finish_reason": _finish_reason(reply)}


def _parts(message: ChatMessage) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if message.thought:
        parts.append({"type": "reasoning", "content": _bounded(message.thought)})
    if message.content:
        parts.append(_text(message.content))
    parts += [
        {"type": "tool_call", "id": use.id, "name": use.name, "arguments": _bounded(use.arguments)}
        for use in message.uses
    ]
    return parts


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": _bounded(text)}


def _bounded(text: str) -> str:
    shown = hide_text(clean(text))
    return shown if len(shown) <= _MAX_PART else f"{shown[: _MAX_PART - 1]}…"


def _last(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last messages, as many as fit."""
    kept: list[dict[str, Any]] = []
    left = _MAX_CONTENT
    for message in reversed(messages):
        left -= len(_json(message))
        if left < 0 and kept:
            break
        kept.append(message)
    return kept[::-1]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _short(text: str) -> str:
    return clean(text)[:200]
