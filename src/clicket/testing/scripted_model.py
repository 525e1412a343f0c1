"""A language model with prepared answers, for tests. `clicket.models.ScriptModel` reads its answers from a file, for settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolUse, TypedBy, Usage

__all__ = ["ScriptedModel"]

_PIECE = 8
"""Characters of one delta."""


class ScriptedModel:
    """Gives its answers one after the other. An answer is

    - a text: a final answer;
    - a list of `(tool, arguments)` pairs: a step of tool calls. Arguments are a mapping, or a text that is passed on unchanged;
    - a `ChatReply`, returned unchanged; an exception, raised, and raised again for further requests if it is the last answer;
    - a function of the request, sync or async, that returns one of these.

    `requests` holds the requests. `sees_images`: they have the bytes of images and files. A model that is made again after a crash
    continues its script: it skips its answers that the conversation, or the turn, already has. `position="transcript"` selects the
    answer by the number of assistant messages in the request, whatever their content.
    """

    def __init__(
        self,
        answers: Iterable[Any],
        *,
        name: str = "scripted",
        position: Literal["counter", "transcript"] = "counter",
        typed_by: TypedBy = "text",
        sees_images: bool = False,
    ) -> None:
        if position not in ("counter", "transcript"):
            raise UsageError(f"position must be 'counter' or 'transcript', not {position!r}.")
        self.name = name
        self.typed_by: TypedBy = typed_by
        self.sees_images = sees_images
        self.requests: list[ChatRequest] = []
        self._answers = list(answers)
        self._by_transcript = position == "transcript"
        self._next = 0
        for place, answer in enumerate(self._answers):
            _check(f"Answer {place + 1} of the script", answer)
            # Encoded once, so that the model takes hardly any time in benchmarks.
            self._answers[place] = _prepared(answer, place)

    @property
    def left(self) -> int:
        """The number of answers that were not given yet."""
        return len(self._answers) - self._next

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if self._by_transcript:
            place = sum(one.role == "assistant" for one in request.messages)
        else:
            place = self._next or _skipped(self._answers, request.messages)
        self._next = place + 1
        if place >= len(self._answers):
            last: Any = self._answers[-1] if self._answers else None
            if _is_error(last):  # a retry gets the same error
                raise last
            raise UsageError(
                f"The script of {self.name!r} has {len(self._answers)} answers, and another one was requested. "
                "Add answers; `requests` holds the requests."
            )
        answer = self._answers[place]
        if callable(answer) and not isinstance(answer, type):
            answer = answer(request)
            if inspect.isawaitable(answer):
                answer = await answer
            _check(f"What function {place + 1} of the script returned", answer, called=True)
            answer = _prepared(answer, place)
        if type(answer) is ChatReply:
            return answer
        if not isinstance(answer, _Prepared):
            raise answer
        asked = 3
        for message in request.messages:
            asked += len(message.content)
        usage = Usage(input_tokens=asked // 4, output_tokens=answer.tokens)
        return ChatReply(text=answer.text, uses=answer.uses, usage=usage)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        return stream_whole(await self.chat(request), tell, _PIECE)


def stream_whole(reply: ChatReply, tell: Callable[[Delta], None], size: int) -> ChatReply:
    """Pass a whole reply on as deltas of at most `size` characters."""
    for kind, text in (("thought", reply.thought), ("text", reply.text)):
        for piece in _pieces(text, size):
            tell(Delta(kind, piece))  # type: ignore[arg-type]  # one of the two kinds
    for number, use in enumerate(reply.uses):
        tell(Delta("name", use.name, number))
        for piece in _pieces(use.arguments, size):
            tell(Delta("arguments", piece, number))
    return reply


class _Prepared(msgspec.Struct, frozen=True):
    """An answer without its input tokens. A token is counted as four characters: budgets need plausible counts, not exact ones."""

    text: str
    uses: tuple[ToolUse, ...]
    tokens: int


def _skipped(answers: Sequence[Any], messages: Sequence[ChatMessage]) -> int:
    """The number of answers that a new model skips: those that the conversation, or else the turn, begins with. 0 if the messages are
    not from this script."""
    begins = max((place for place, one in enumerate(messages) if one.role == "user"), default=0)
    turn = [one for one in messages[begins:] if one.role == "assistant"]
    whole = [one for one in messages if one.role == "assistant"]
    return next((place for given in (whole, turn) if turn and (place := _given(answers, given))), 0)


def _given(answers: Sequence[Any], messages: Sequence[ChatMessage]) -> int:
    """The number of answers that led to these messages; 0 if the messages are not the first answers."""
    place = 0
    for message in messages:
        while place < len(answers) and _is_error(answers[place]):  # it was raised, and the request was retried
            place += 1
        if place == len(answers) or not _is_same(answers[place], message):
            return 0
        place += 1
    return place


def _is_same(answer: Any, message: ChatMessage) -> bool:
    if not isinstance(answer, _Prepared | ChatReply):
        return True  # a function may have returned it
    calls = [(use.name, use.arguments) for use in answer.uses]
    return answer.text == message.content and calls == [(use.name, use.arguments) for use in message.uses]


def _prepared(answer: Any, place: int) -> Any:
    if isinstance(answer, str):
        return _Prepared(answer, (), (len(answer) + 3) // 4)
    if not isinstance(answer, Sequence):
        return answer
    uses = tuple(
        ToolUse(id=f"call_{place + 1}_{number}", name=tool, arguments=_written(arguments))
        for number, (tool, arguments) in enumerate(answer, 1)
    )
    return _Prepared("", uses, (sum(len(use.name) + len(use.arguments) for use in uses) + 3) // 4)


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _check(what: str, answer: Any, *, called: bool = False) -> None:
    if isinstance(answer, str | ChatReply) or _is_error(answer):
        return
    is_step = isinstance(answer, Sequence) and all(_is_call(one) for one in answer)
    if is_step or (callable(answer) and not isinstance(answer, type) and not called):
        return
    raise UsageError(
        f"{what} is {type(answer).__name__}: a text, a ChatReply, an exception, a list of (tool, arguments) pairs, or a "
        "function that returns one of these is wanted."
    )


def _is_error(answer: Any) -> bool:
    return isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException))


def _is_call(one: Any) -> bool:
    return isinstance(one, Sequence) and len(one) == 2 and isinstance(one[0], str)
