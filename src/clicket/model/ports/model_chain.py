"""A model that asks several others, one after the other, until one answers. The caller of a chain does what belongs to each try: it
reserves and counts the cost, records what failed, and keeps which models are held.

`clicket.models.Fallback` is a chain. Asked by `chat` and `stream` it does all that by itself, in the memory of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from clicket.model.chat import ChatReply, ChatRequest, Delta
from clicket.model.ports.clock import Clock
from clicket.model.ports.services import ChatModel

__all__ = ["FailedTry", "Hold", "ModelChain", "Tries", "Try", "is_current"]


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """A model that failed is not asked before `until`, if there is another one; and not before `asked_until`, the time for which its vendor
    asked (Retry-After), even if there is none. Dates."""

    until: float
    asked_until: float = 0.0
    seconds: float
    """How long it lasts, so that a date that was changed meanwhile cannot make it last longer."""


def is_current(hold: Hold | None, now: float) -> bool:
    return hold is not None and 0 < hold.until - now <= hold.seconds


class FailedTry(msgspec.Struct, frozen=True, kw_only=True):
    """`reason`: `unavailable`, `rate_limit`, `timeout`, `stalled`, `refusal`, `length`, or the name of an exception's class. `next`: the
    model that is asked now; empty if none is left. `reply`: of a model that declined, or reached its limit of tokens."""

    model: str
    reason: str
    error: str
    seconds: float
    next: str = ""
    reply: ChatReply | None = None


class Try(Protocol):
    """One request to one model of a chain."""

    @property
    def model(self) -> ChatModel: ...

    @property
    def name(self) -> str:
        """The model's name, with a number if the chain has several of that name."""
        ...

    def fit(self, request: ChatRequest) -> ChatRequest:
        """The request without what only another model can read."""
        ...

    async def send(self, request: ChatRequest, tell: Callable[[Delta], None] | None) -> ChatReply:
        """Ask the model once. When it raises, or is cancelled, the request has been cancelled."""
        ...


class Tries(Protocol):
    """What the caller of a chain does. An exception that does not come from `Try.send` ends the chain."""

    @property
    def clock(self) -> Clock: ...

    async def held(self) -> Mapping[str, Hold]:
        """What is known of held models, by their keys. Some may be over, or missing: holds save time alone."""
        ...

    async def hold(self, key: str, hold: Hold) -> None: ...

    async def ask(self, one: Try) -> ChatReply:
        """Fit the request, send it, and return the reply."""
        ...

    async def failed(self, one: Try, failed: FailedTry) -> None:
        """The try has failed. The next one begins when this returns."""
        ...


@runtime_checkable
class ModelChain(ChatModel, Protocol):
    @property
    def models(self) -> Sequence[ChatModel]: ...

    async def try_each(self, tries: Tries) -> ChatReply:
        """The reply of the first model that answers. Raises as a model does: `RetryableError` if a retry may help."""
        ...
