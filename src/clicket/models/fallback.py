"""`Fallback`: several models as one. What a model fails with decides whether the next one is asked; a model that failed is held back for a
while, so that later requests do not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from typing import Any

import msgspec

from clicket.errors import RetryableError, UsageError, did_you_mean
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, TypedBy
from clicket.model.codec import clean
from clicket.model.ports.clock import Clock, SystemClock
from clicket.model.ports.model_chain import FailedTry, Hold, Tries, Try, is_current
from clicket.model.ports.model_trace import MODEL_TRACE
from clicket.model.ports.services import ChatModel, StreamingModel
from clicket.models.failure_reasons import CONDITIONS, condition_of, is_transient
from clicket.models.file_blocks import UNSEEN, without_files
from clicket.models.found_tools import without_deferred
from clicket.models.stall_guard import ask_guarded

__all__ = ["Fallback"]

OnFailed = Callable[[FailedTry], object]
_ENDINGS = ("refusal", "length")
_REASONS = (*sorted(CONDITIONS), *_ENDINGS)
_WROTE = "by"
"""In `ChatMessage.vendor`: the model of the chain that wrote the message."""
_MAX_ERROR = 300
_held: dict[str, Hold] = {}
"""Of the process: for requests outside of agents."""


class Fallback:
    """`Fallback(AnthropicModel("A"), OpenAIModel("B"))`: B is asked if A fails.

    `on`: what counts as failing: `unavailable` (HTTP 5xx, no connection, an answer that broke off), `rate_limit` (HTTP 429),
    `timeout`, `stalled`; also `refusal` and `length`, for answers that end so, and classes of exceptions. Any other error is raised.
    `first_piece`, `next_piece`: seconds for the first piece of an answer, and for each further one; after that the model has stalled
    and its request is cancelled. Models that can stream are streamed for this. None: no limit. `hold`: seconds for which a model
    that failed by one of the first four reasons is not asked, at least as long as its vendor asks for (Retry-After). If all
    models are held, the one whose hold ends first is asked.

    As for any model the caller decides about retries: if no model answers, the error is a `RetryableError` if a retry may help.
    In an agent, holds are shared by all processes over the store of its runtime, else by all of this process. `clock`: for tests; such a
    chain has holds of its own.
    """

    def __init__(
        self,
        *models: ChatModel,
        on: Sequence[str | type[Exception]] = ("unavailable", "rate_limit", "timeout", "stalled"),
        first_piece: float | None = 10.0,
        next_piece: float | None = 20.0,
        hold: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        _check(models, on)
        self._reasons = frozenset(each for each in on if isinstance(each, str))
        self._errors = tuple(each for each in on if not isinstance(each, str))
        self._first_piece = _seconds("first_piece", first_piece)
        self._next_piece = _seconds("next_piece", next_piece)
        self._hold = _seconds("hold", hold, least=0.0) or 0.0
        self._clock = clock
        self._held = _held if clock is None else {}
        self._links = _links(models)
        self.models: tuple[ChatModel, ...] = models
        self.name: str = ", ".join(link.label for link in self._links)

    def __repr__(self) -> str:
        return f"Fallback({', '.join(map(repr, self.models))})"

    @property
    def defers_tools(self) -> bool:
        """May a request have deferred tools? Models that cannot take them do not get them."""
        return any(link.defers_tools for link in self._links)

    @property
    def typed_by(self) -> TypedBy:
        """In a way that all of them take."""
        ways = {getattr(model, "typed_by", "text") for model in self.models}
        return "schema" if ways == {"schema"} else "text" if "text" in ways else "tool"

    @property
    def sees_images(self) -> bool:
        """Does one of them? The others get lines of text."""
        return any(getattr(model, "sees_images", False) for model in self.models)

    async def chat(self, request: ChatRequest, *, on_failed: OnFailed | None = None) -> ChatReply:
        """`on_failed` is called for each try that failed."""
        return await self.try_each(self._alone(request, None, on_failed))

    async def stream(
        self, request: ChatRequest, tell: Callable[[Delta], None], *, on_failed: OnFailed | None = None
    ) -> ChatReply:
        """When `on_failed` is called, the pieces so far are void. The pieces of the next answer follow."""
        return await self.try_each(self._alone(request, tell, on_failed))

    async def close(self) -> None:
        """Close the connections of all models."""
        for model in self.models:
            close: Any = getattr(model, "close", None)
            if close is not None:
                await close()

    def _alone(self, request: ChatRequest, tell: Callable[[Delta], None] | None, on_failed: OnFailed | None) -> Tries:
        return _Alone(request, tell, on_failed, self._clock or SystemClock(), self._held)

    async def try_each(self, tries: Tries) -> ChatReply:
        """For the caller that does what belongs to each try: see `model.ports.model_chain`."""
        failures: list[tuple[FailedTry, Exception]] = []
        order = self._order(await tries.held(), tries.clock.now())
        for number, link in enumerate(order, start=1):
            one = _Try(self, link, tries.clock)
            started = tries.clock.monotonic()
            after = order[number].label if number < len(order) else ""
            error: Exception | None = None
            reply: ChatReply | None = None
            try:
                reply = await tries.ask(one)
            except Exception as raised:
                if raised is not one.raised:  # not the model's
                    raise
                reason = self._reason(raised)
                if reason is None:
                    raise
                error = raised
            else:
                if not after or reply.ended not in self._reasons:
                    return link.signed(reply)
                reason = reply.ended
            said = f"the answer ended with {reason!r}" if error is None else _text(error)
            seconds = tries.clock.monotonic() - started
            failed = FailedTry(model=link.label, reason=reason, error=said, seconds=seconds, next=after, reply=reply)
            if error is not None:
                failures.append((failed, error))
                await self._keep_hold(tries, link, reason, error)
            await tries.failed(one, failed)
        raise _none_answered(failures, _asked_wait(self._links, await tries.held(), tries.clock.now()))

    def _order(self, held: Mapping[str, Hold], now: float) -> list[_Link]:
        """Those that are not held. If all are, the one whose hold ends first and whose vendor's wait is over."""
        free = [link for link in self._links if not is_current(held.get(link.key), now)]
        if free:
            return free
        ready = [link for link in self._links if held[link.key].asked_until <= now]
        if not ready:
            wait = min(held[link.key].asked_until for link in self._links) - now
            raise RetryableError(
                f"No model can be asked now: the vendors of {self.name} ask for pauses, the first of which ends in {wait:.0f} s.",
                retry_after=wait,
                reason="rate_limit",
            )
        return [min(ready, key=lambda link: held[link.key].until)]

    def _reason(self, error: Exception) -> str | None:
        """None: the next model is not asked."""
        condition = condition_of(error)
        if condition in self._reasons:
            return condition
        return type(error).__name__ if isinstance(error, self._errors) else None

    async def _keep_hold(self, tries: Tries, link: _Link, reason: str, error: Exception) -> None:
        if reason not in CONDITIONS:  # the request may be the cause
            return
        wait = _retry_after(error)
        seconds = max(self._hold, wait)
        if seconds:
            now = tries.clock.now()
            hold = Hold(until=now + seconds, asked_until=now + wait if wait else 0.0, seconds=seconds)
            await tries.hold(link.key, hold)


class _Link(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the chain. `label`: its name, with a number if the chain has several of that name. `key`: identifies it among all
    models that share holds."""

    model: Any
    label: str
    key: str
    is_first: bool

    @property
    def defers_tools(self) -> bool:
        return getattr(self.model, "defers_tools", False) is True

    def signed(self, reply: ChatReply) -> ChatReply:
        vendor = {**reply.vendor, _WROTE: self.label} if reply.vendor else reply.vendor
        return msgspec.structs.replace(reply, vendor=vendor, model=reply.model or self.label)

    def fit(self, request: ChatRequest) -> ChatRequest:
        if any(message.role == "assistant" and message.vendor for message in request.messages):
            request = msgspec.structs.replace(request, messages=tuple(map(self._readable, request.messages)))
        if not getattr(self.model, "sees_images", False):
            request = without_files(request, UNSEEN)
        return request if self.defers_tools else without_deferred(request)

    def _readable(self, message: ChatMessage) -> ChatMessage:
        """The message with what this model's vendor gave with it, and without what another one did. Of a message that was written
        without this chain the first model gets all."""
        if message.role != "assistant" or not message.vendor:
            return message
        wrote = message.vendor.get(_WROTE)
        kept = {key: value for key, value in message.vendor.items() if key != _WROTE}
        is_own = self.is_first if wrote is None else wrote == self.label
        return msgspec.structs.replace(message, vendor=kept if is_own else None)


class _Try:
    """Implements `model.ports.model_chain.Try`. `raised`: what the model raised."""

    def __init__(self, chain: Fallback, link: _Link, clock: Clock) -> None:
        self._chain = chain
        self._link = link
        self._clock = clock
        self.raised: Exception | None = None

    @property
    def model(self) -> ChatModel:
        model: ChatModel = self._link.model
        return model

    @property
    def name(self) -> str:
        return self._link.label

    def fit(self, request: ChatRequest) -> ChatRequest:
        return self._link.fit(request)

    async def send(self, request: ChatRequest, tell: Callable[[Delta], None] | None) -> ChatReply:
        chain = self._chain
        try:
            reply = await ask_guarded(
                self.model, request, tell, self._clock, first_piece=chain._first_piece, next_piece=chain._next_piece
            )
        except Exception as error:
            self.raised = error
            raise
        if not isinstance(reply, ChatReply):
            raise UsageError(f"{self.name} answered with {type(reply).__name__}: a model's chat() returns a ChatReply.")
        return reply


class _Alone:
    """Implements `model.ports.model_chain.Tries` for a request that no agent makes."""

    def __init__(
        self,
        request: ChatRequest,
        tell: Callable[[Delta], None] | None,
        on_failed: OnFailed | None,
        clock: Clock,
        held: dict[str, Hold],
    ) -> None:
        self.clock = clock
        self._held = held
        self._request = request
        self._tell = tell
        self._on_failed = on_failed

    async def held(self) -> Mapping[str, Hold]:
        return self._held

    async def hold(self, key: str, hold: Hold) -> None:
        self._held[key] = hold

    async def ask(self, one: Try) -> ChatReply:
        trace = MODEL_TRACE.get()
        request = one.fit(self._request)
        if trace is None:
            return await one.send(request, self._tell)
        streamed = self._tell is not None and isinstance(one.model, StreamingModel)
        with trace.request(one.model, request, streamed=streamed) as span:
            reply = await one.send(request, self._tell)
            span.replied(reply)
        return reply

    async def failed(self, one: Try, failed: FailedTry) -> None:
        if self._on_failed is not None:
            self._on_failed(failed)


def _check(models: Sequence[Any], on: Sequence[Any]) -> None:
    if not models:
        raise UsageError('Fallback needs models: Fallback(AnthropicModel("A"), OpenAIModel("B")).')
    for model in models:
        if isinstance(model, Fallback):
            raise UsageError("a Fallback in a Fallback: list all models in one.")
        if isinstance(model, str) or not callable(getattr(model, "chat", None)):
            raise UsageError(
                f"{model!r:.100} is not a model: it has no method chat(request). model_of('openai:NAME') makes one from its name."
            )
    if isinstance(on, str) or not isinstance(on, Sequence):
        raise UsageError(f"on is a list of reasons, not {on!r:.60}: write on=[{on!r:.60}].")
    for each in on:
        if isinstance(each, str) and each not in _REASONS:
            raise UsageError(
                f"on: there is no reason {each!r:.60}.{did_you_mean(each, _REASONS)} Known: {', '.join(_REASONS)}, and classes of "
                "exceptions."
            )
        if not isinstance(each, str) and not (isinstance(each, type) and issubclass(each, Exception)):
            raise UsageError(f"on: {each!r:.60} is neither a reason nor a class of exceptions.")


def _seconds(name: str, value: Any, *, least: float | None = None) -> float | None:
    if value is None and least is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (value > 0 if least is None else value >= least) or not value < inf:
        wanted = "more than 0, or None for no limit" if least is None else "0 or more"
        raise UsageError(f"{name} is a number of seconds, {wanted}: {value!r:.60}")
    return float(value)


def _links(models: Sequence[Any]) -> tuple[_Link, ...]:
    links: list[_Link] = []
    for model in models:
        name = str(getattr(model, "name", "") or type(model).__name__)
        address = str(getattr(model, "address", "") or "")
        label = name
        number = 1
        while any(link.label == label for link in links):
            number += 1
            label = f"{name}#{number}"
        key = f"{label} {address}" if address else label
        links.append(_Link(model=model, label=label, key=key, is_first=not links))
    return tuple(links)


def _retry_after(error: Exception) -> float:
    asked: Any = getattr(error, "retry_after", None)
    is_number = isinstance(asked, int | float) and not isinstance(asked, bool)
    return float(asked) if is_number and isfinite(asked) and asked > 0 else 0.0


def _asked_wait(links: Sequence[_Link], held: Mapping[str, Hold], now: float) -> float | None:
    """Seconds for which every model's vendor has asked for a pause; None: one can be asked at once."""
    waits = [held[link.key].asked_until - now if is_current(held.get(link.key), now) else 0.0 for link in links]
    return min(waits) if min(waits) > 0 else None


def _none_answered(failures: Sequence[tuple[FailedTry, Exception]], wait: float | None) -> Exception:
    last, error = failures[-1]
    if not any(is_transient(each) for _, each in failures):
        return error
    said = "; ".join(
        f"{failed.model}: {failed.reason} after {failed.seconds:.3g} s: {failed.error}" for failed, _ in failures
    )
    reason = last.reason if last.reason in CONDITIONS else "unavailable"
    return RetryableError(f"No model answered. {said}", retry_after=wait, reason=reason)


def _text(error: Exception) -> str:
    try:
        return clean(error)[:_MAX_ERROR]
    except Exception:  # `__str__` of a foreign exception may raise
        return type(error).__name__
