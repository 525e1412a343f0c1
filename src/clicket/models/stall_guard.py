"""Asks a model, and gives up when it falls silent. The pieces of a stream show that a model works, so one that can stream is streamed, also
if nobody reads the pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clicket.errors import RetryableError
from clicket.model.chat import ChatReply, ChatRequest, Delta
from clicket.model.ports.clock import Clock, Timer
from clicket.model.ports.services import ChatModel, StreamingModel
from clicket.models.reply_builder import ignore_delta

__all__ = ["ask_guarded"]


async def ask_guarded(
    model: ChatModel,
    request: ChatRequest,
    tell: Callable[[Delta], None] | None,
    clock: Clock,
    *,
    first_piece: float | None,
    next_piece: float | None,
) -> ChatReply:
    """`first_piece`, `next_piece`: seconds for the first piece of the answer, and for each further one and the end; None: no limit. When
    one is over, the request is cancelled, and the error is a `RetryableError` with the reason `stalled`. A piece with an empty text shows
    that the model works, and is not passed on."""
    if not isinstance(model, StreamingModel):
        reply = await model.chat(request)
        if tell is not None and isinstance(reply, ChatReply):
            _tell_whole(reply, tell)
        return reply
    if first_piece is None and next_piece is None:
        return await (model.chat(request) if tell is None else model.stream(request, tell))
    watch = _Watch(clock, first_piece, next_piece, tell or ignore_delta)
    try:
        async with watch.scope:
            watch.arm()
            return await model.stream(request, watch.took)
    except TimeoutError:
        if not watch.is_over:
            raise
    finally:
        watch.end()
    which, limit = ("next", next_piece) if watch.pieces else ("first", first_piece)
    raise RetryableError(
        f"The model {model.name} stalled: no {which} piece of its answer came in {limit:g} s.", reason="stalled"
    )


def _tell_whole(reply: ChatReply, tell: Callable[[Delta], None]) -> None:
    if reply.thought:
        tell(Delta("thought", reply.thought))
    if reply.text:
        tell(Delta("text", reply.text))
    for number, use in enumerate(reply.uses):
        tell(Delta("name", use.name, number))
        tell(Delta("arguments", use.arguments, number))


class _Watch:
    """Ends `scope` when a limit is over. A timer runs to its end and looks then when the last piece came: pieces are many."""

    def __init__(
        self, clock: Clock, first_piece: float | None, next_piece: float | None, tell: Callable[[Delta], None]
    ) -> None:
        self.scope = asyncio.timeout(None)
        self.pieces = 0
        self.is_over = False
        self._clock = clock
        self._first = first_piece
        self._next = next_piece
        self._tell = tell
        self._since = clock.monotonic()
        self._timer: Timer | None = None

    def took(self, piece: Delta) -> None:
        self.pieces += 1
        self._since = self._clock.monotonic()
        if self.pieces == 1:
            self.end()
            self.arm()
        if piece.text:
            self._tell(piece)

    def arm(self) -> None:
        limit = self._next if self.pieces else self._first
        if limit is not None and not self.is_over:
            left = limit - (self._clock.monotonic() - self._since)
            self._timer = self._clock.call_later(max(left, 0.0), self._look)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        limit = self._next if self.pieces else self._first
        if limit is not None and self._clock.monotonic() - self._since >= limit:
            self.is_over = True
            self.scope.reschedule(asyncio.get_running_loop().time())
        else:
            self.arm()
