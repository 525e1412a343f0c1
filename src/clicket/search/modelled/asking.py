"""One question to a model, and a value of the right shape for an answer, or `NoAnswer` that says why there is none.

A failure that may pass is tried again after a while; an answer of another shape is sent back once. Tokens are counted in
the ledger of the stage, and all of it ends in its time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from clicket.errors import RetryableError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Usage
from clicket.ports.services import ChatModel
from clicket.search import ledger
from clicket.search.modelled.fitting import tokens_of
from clicket.search.modelled.reading import MAX_TEXT, values_in
from clicket.search.text.surrogates import clean
from clicket.vault import hide_text

__all__ = ["SPENT", "Asking", "Form", "NoAnswer"]

T = TypeVar("T")

_MAX_SAID = 200
_SHOWN_AGAIN = 2_000
"""Characters of a wrong answer that are shown to the model again."""
_SHARE = 0.9
_LEAST = 64
"""With fewer tokens left for an answer, asking is in vain."""


SPENT = "was not asked, because the budget of tokens is spent"


class NoAnswer(Exception):
    """Never leaves the parts: they fall back. Its text ends a sentence that begins with the model's name."""


class Form(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What is asked for. `read` turns plain JSON into a value, or gives None when it is something else."""

    name: str
    schema: Mapping[str, Any]
    example: str
    read: Callable[[Any], T | None]
    max_tokens: int = 4_000
    """Of the answer. Models that think first need most of it for that."""


class Asking:
    """How a part asks its model. `seconds` is for one question with everything that belongs to it."""

    def __init__(
        self,
        model: ChatModel,
        *,
        attempts: int = 3,
        seconds: float = 120.0,
        pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self.model = model
        self._attempts = attempts
        self._seconds = seconds
        self._pause = pause

    @property
    def name(self) -> str:
        return str(self.model.name)[:100]

    async def ask(self, form: Form[T], system: str, prompt: str) -> T:
        stage = ledger.current().seconds
        # A little less than the stage has: what takes over needs some of it.
        seconds = self._seconds if stage is None else min(self._seconds, stage * _SHARE)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._ask(form, system, prompt, limit)
        except TimeoutError:
            raise NoAnswer(f"did not answer within {seconds:g} s") from None

    async def _ask(self, form: Form[T], system: str, prompt: str, limit: asyncio.Timeout) -> T:
        ending = f"Answer with JSON only, in this form:\n{form.example}"
        messages = [
            ChatMessage(role="system", content=clean(system)),
            ChatMessage(role="user", content=clean(f"{prompt}\n\n{ending}")),
        ]
        reply = await self._chat(form, messages, limit)
        found = _read(form, reply)
        if found is not None:
            return found
        if reply.ended == "refusal":
            raise NoAnswer("declined to answer")
        wrong = (
            "was cut off at its limit; give a shorter one"
            if reply.ended == "length"
            else "was not of the form asked for"
        )
        messages += [
            ChatMessage(role="assistant", content=clean(reply.text[:_SHOWN_AGAIN]) or "(nothing)"),
            ChatMessage(role="user", content=f"Your answer {wrong}. {ending}"),
        ]
        found = _read(form, await self._chat(form, messages, limit))
        if found is None:
            raise NoAnswer("gave no answer of the form asked for, also when asked again")
        return found

    async def _chat(self, form: Form[T], messages: list[ChatMessage], limit: asyncio.Timeout) -> ChatReply:
        asked = sum(tokens_of(one.content) for one in messages)
        left = ledger.current().left
        most = form.max_tokens if left is None else min(form.max_tokens, left - asked)
        if most < _LEAST:
            raise NoAnswer(SPENT)
        request = ChatRequest(messages=tuple(messages), schema=form.schema, schema_name=form.name, max_tokens=most)
        reply = await self._tried(request, limit)
        if not isinstance(reply, ChatReply) or not isinstance(reply.text, str):
            raise NoAnswer(f"answered with {type(reply).__name__} instead of a ChatReply")
        # A model that does not count is counted for, or no budget would ever end.
        guess = Usage(input_tokens=asked, output_tokens=tokens_of(reply.text[:MAX_TEXT]))
        counts = isinstance(reply.usage, Usage) and reply.usage.total > 0
        ledger.spend(reply.usage if counts else guess)
        return reply

    async def _tried(self, request: ChatRequest, limit: asyncio.Timeout) -> Any:
        attempt = 1
        while True:
            try:
                return await self.model.chat(request)
            except (RetryableError, ConnectionError, TimeoutError) as error:
                wait = _wait(attempt, getattr(error, "retry_after", None))
                ends_at = limit.when()
                late = ends_at is not None and asyncio.get_running_loop().time() + wait >= ends_at
                if attempt >= self._attempts or late:
                    raise NoAnswer(f"could not be asked: {_said(error)}") from None
            except Exception as error:  # whatever a model does, the search goes on without it
                raise NoAnswer(f"failed: {_said(error)}") from None
            await self._pause(wait)
            attempt += 1


def _read(form: Form[T], reply: ChatReply) -> T | None:
    for value in values_in(reply.text):
        found = form.read(value)
        if found is not None:
            return found
    return None


def _wait(attempt: int, asked: Any) -> float:
    """The server knows best when it will do, if it says so."""
    if isinstance(asked, int | float) and asked >= 0 and not math.isinf(asked):
        return float(asked)
    return 0.5 * 2.0 ** (attempt - 1)


def _said(error: BaseException) -> str:
    """For a note that is kept: in one line, and without what looks like a key."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return hide_text(clean(text))[:_MAX_SAID]
