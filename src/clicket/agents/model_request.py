"""One request of a turn to one model: within the turn's time, with pieces for those who read along, and in a trace if there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from clicket.agents.sensitive_values import masked_deltas
from clicket.agents.task_waits import ended_before
from clicket.agents.turn import Turn
from clicket.errors import ClicketError
from clicket.model.chat import ChatReply, ChatRequest, Delta
from clicket.model.ports import ChatModel, StreamingModel
from clicket.model.ports.model_trace import MODEL_TRACE
from clicket.system.bridge import fulfil

__all__ = ["OutOfTime", "Send", "asked_once", "sent_to", "within"]

T = TypeVar("T")
Send = Callable[[ChatRequest, Callable[[Delta], None] | None], Awaitable[ChatReply]]
"""Sends a request to a model, and passes on the pieces of the reply."""
OnPiece = Callable[[], None]


class OutOfTime(ClicketError):
    """The turn's time was over before the model replied."""

    code = "timeout"


async def within(turn: Turn, seconds: float, work: Awaitable[T]) -> T:
    """The work's value; or `OutOfTime`, after the work has been cancelled."""
    task = asyncio.ensure_future(work)
    deadline: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = turn.clock.call_later(seconds, fulfil, deadline)
    try:
        if await ended_before(deadline, task):
            return task.result()
    finally:
        timer.cancel()
    raise OutOfTime(f"the model had not answered when the run's time was over ({seconds:g} s were left).")


async def sent_to(model: Any, request: ChatRequest, tell: Callable[[Delta], None] | None) -> ChatReply:
    reply: ChatReply = await (model.chat(request) if tell is None else model.stream(request, tell))
    return reply


async def asked_once(
    turn: Turn,
    model: ChatModel,
    request: ChatRequest,
    send: Send,
    *,
    on_piece: OnPiece | None = None,
    tried: Sequence[str] = (),
) -> ChatReply:
    """`on_piece` is called for each piece that readers may get. `tried`: what failed before, for the trace."""
    trace = MODEL_TRACE.get()
    streamed = turn.has_piece_readers and isinstance(model, StreamingModel)
    if trace is None:
        return await (_streamed(turn, request, send, (on_piece,)) if streamed else send(request, None))
    with trace.request(
        model,
        request,
        agent=turn.agent,
        thread=turn.thread,
        streamed=streamed,
        mask=turn.sensitive.message,
        tried=tried,
    ) as span:
        first = span.first_piece
        reply = await (_streamed(turn, request, send, (first, on_piece)) if streamed else send(request, None))
        if isinstance(reply, ChatReply):
            turn.sensitive.take(reply.uses)  # before the span shows them
        span.replied(reply)
    return reply


async def _streamed(turn: Turn, request: ChatRequest, send: Send, on_piece: Sequence[OnPiece | None]) -> ChatReply:
    holds = bool(turn.middleware.after_model or turn.middleware.output)  # they may change or refuse the text

    def tell(piece: Delta) -> None:
        if not holds or piece.kind != "text":
            turn.publish_piece(piece)

    take, end = masked_deltas(turn.sensitive, tell)

    def took(piece: Delta) -> None:
        if piece.text:  # an empty one shows only that the model works
            for each in on_piece:
                if each is not None:
                    each()
            take(piece)

    reply = await send(request, took)
    end()
    return reply
