"""Asks a model one question and returns a value of the right type, or raises `NoAnswer`.

A transient failure is retried after a pause; an answer of another format is sent back once. Tokens are counted in the usage of
the stage, and everything ends within the time of the stage.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from clicket.errors import RetryableError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Usage
from clicket.model.ports.model_trace import observed_chat
from clicket.model.ports.services import ChatModel
from clicket.model.text.surrogates import clean, one_line
from clicket.safety.vault import hide_text
from clicket.search.llm.context_budget import count_tokens
from clicket.search.llm.lenient_json import MAX_TEXT, values_in
from clicket.search.usage import add_usage, current_usage

__all__ = ["SPENT", "NoAnswer", "ResponseFormat", "StructuredChat"]

T = TypeVar("T")

_MAX_ERROR = 200
_MAX_SENT_BACK = 2_000
"""Characters of a wrong answer that are sent back to the model."""
_STAGE_SHARE = 0.9
"""Of the stage's time: the fallback needs the rest."""
_MIN_ANSWER = 64
"""Tokens: with fewer left for the answer, the model is not asked."""

SPENT = "was not asked, because the budget of tokens is spent"


class NoAnswer(Exception):
    """Caught by the parts, which fall back. Its text completes a sentence that begins with the model's name."""


class ResponseFormat(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The form of an answer. `parse` turns plain JSON into a value, or the text itself if there is no schema; None if it does not fit."""

    name: str
    schema: Mapping[str, Any] | None
    example: str
    parse: Callable[[Any], T | None]
    max_tokens: int = 4_000
    """Of the answer, including what a reasoning model uses to think."""


class StructuredChat:
    """Asks `model`. `seconds` limits one question with all its attempts."""

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

    async def ask(
        self, format: ResponseFormat[T], system: str, prompt: str, examples: Sequence[tuple[str, str]] = ()
    ) -> T:
        """`examples` are prompts with their answers, which the model sees as earlier turns; they show the form of an answer."""
        stage = current_usage().seconds
        seconds = self._seconds if stage is None else min(self._seconds, stage * _STAGE_SHARE)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._ask(format, _messages(format, system, prompt, examples), limit)
        except TimeoutError:
            raise NoAnswer(f"did not answer within {seconds:g} s") from None

    async def _ask(self, format: ResponseFormat[T], messages: list[ChatMessage], limit: asyncio.Timeout) -> T:
        reply = await self._chat(format, messages, limit)
        found = _parsed(format, reply)
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
            ChatMessage(role="assistant", content=clean(reply.text[:_MAX_SENT_BACK]) or "(nothing)"),
            ChatMessage(role="user", content=f"Your answer {wrong}. {_ending(format)}"),
        ]
        found = _parsed(format, await self._chat(format, messages, limit))
        if found is None:
            raise NoAnswer("gave no answer of the form asked for, also when asked again")
        return found

    async def _chat(self, format: ResponseFormat[T], messages: list[ChatMessage], limit: asyncio.Timeout) -> ChatReply:
        asked = sum(count_tokens(one.content) for one in messages)
        left = current_usage().tokens_left
        most = format.max_tokens if left is None else min(format.max_tokens, left - asked)
        if most < _MIN_ANSWER:
            raise NoAnswer(SPENT)
        request = ChatRequest(messages=tuple(messages), schema=format.schema, schema_name=format.name, max_tokens=most)
        reply = await self._chat_with_retries(request, limit)
        if not isinstance(reply, ChatReply) or not isinstance(reply.text, str):
            raise NoAnswer(f"answered with {type(reply).__name__} instead of a ChatReply")
        # If the model reports no usage, it is estimated; otherwise the budget would never be spent.
        guess = Usage(input_tokens=asked, output_tokens=count_tokens(reply.text[:MAX_TEXT]))
        counts = isinstance(reply.usage, Usage) and reply.usage.total > 0
        add_usage(reply.usage if counts else guess)
        return reply

    async def _chat_with_retries(self, request: ChatRequest, limit: asyncio.Timeout) -> Any:
        attempt = 1
        while True:
            try:
                return await observed_chat(self.model, request)
            except (RetryableError, ConnectionError, TimeoutError) as error:
                wait = _wait(attempt, getattr(error, "retry_after", None))
                ends_at = limit.when()
                late = ends_at is not None and asyncio.get_running_loop().time() + wait >= ends_at
                if attempt >= self._attempts or late:
                    raise NoAnswer(f"could not be asked: {_one_line(error)}") from None
            except Exception as error:  # the search goes on without the model
                raise NoAnswer(f"failed: {_one_line(error)}") from None
            await self._pause(wait)
            attempt += 1


def _messages(
    format: ResponseFormat[Any], system: str, prompt: str, examples: Sequence[tuple[str, str]]
) -> list[ChatMessage]:
    shown = [
        message
        for question, answer in examples
        for message in (ChatMessage(role="user", content=question), ChatMessage(role="assistant", content=answer))
    ]
    asked = prompt if examples else f"{prompt}\n\n{_ending(format)}"
    return [
        ChatMessage(role="system", content=clean(system)),
        *shown,
        ChatMessage(role="user", content=clean(asked)),
    ]


def _ending(format: ResponseFormat[Any]) -> str:
    what = "Answer in this form:" if format.schema is None else "Answer with JSON only, in this form:"
    return f"{what}\n{format.example}"


def _parsed(format: ResponseFormat[T], reply: ChatReply) -> T | None:
    if format.schema is None:
        return format.parse(reply.text[:MAX_TEXT])
    for value in values_in(reply.text):
        found = format.parse(value)
        if found is not None:
            return found
    return None


def _wait(attempt: int, retry_after: Any) -> float:
    """Seconds until the next attempt: as the server asked, or exponential."""
    if isinstance(retry_after, int | float) and retry_after >= 0 and not math.isinf(retry_after):
        return float(retry_after)
    return 0.5 * 2.0 ** (attempt - 1)


def _one_line(error: BaseException) -> str:
    """The error for a stored note: one line, without secrets."""
    return hide_text(one_line(f"{type(error).__name__}: {error}", 4 * _MAX_ERROR))[:_MAX_ERROR]
