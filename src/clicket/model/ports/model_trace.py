"""Observing requests to models. Telemetry sets `MODEL_TRACE` around the body of a call; what asks a model within it reports to it.

Without telemetry it is None, and a request costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

from clicket.model.chat import ChatMessage, ChatReply, ChatRequest
from clicket.model.ports.model_chain import ModelChain
from clicket.model.ports.services import ChatModel

__all__ = ["MODEL_TRACE", "Masks", "ModelSpan", "ModelTrace", "Note", "observed_chat"]

Note = Callable[[str, str], None]
"""`note(attribute, value)`."""
Masks = Callable[[ChatMessage], ChatMessage]
"""A message without the values that must not be shown."""


class ModelSpan(Protocol):
    """One request that is under way."""

    def first_piece(self) -> None:
        """The first piece of a streamed reply has come."""
        ...

    def replied(self, reply: ChatReply) -> None: ...


class ModelTrace(Protocol):
    """An exception that leaves one of its contexts is recorded as the request's error, and raised."""

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
    ) -> AbstractContextManager[ModelSpan]:
        """`tried`: of a chain of models, those that gave no answer before, each with the reason."""
        ...

    def part(self, kind: str, name: str, agent: str, thread: str) -> AbstractContextManager[Note]:
        """Around another part of an agent's turn: `plan`, the requests that make or change its plan; `check`; `handoff`, to the agent
        `name`. What it yields notes a fact about it."""
        ...


MODEL_TRACE: ContextVar[ModelTrace | None] = ContextVar("clicket_model_trace", default=None)


async def observed_chat(model: ChatModel, request: ChatRequest) -> ChatReply:
    """Ask a model, and report the request to telemetry if there is one."""
    trace = MODEL_TRACE.get()
    if trace is None or isinstance(model, ModelChain):  # a chain reports each of its requests
        return await model.chat(request)
    with trace.request(model, request) as span:
        reply = await model.chat(request)
        span.replied(reply)
    return reply
