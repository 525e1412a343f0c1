"""A language model that says what a test wrote for it, at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolUse, Usage

__all__ = ["ScriptedModel"]

_PIECE = 8
"""Characters that a stream tells at a time."""


class ScriptedModel:
    """Answers in turn. An answer is

    - a text: a final one;
    - a list of `(tool, arguments)` pairs: a step of tool calls. Arguments are a mapping, or a text that is kept as it is;
    - a `ChatReply`, given as it is; an exception, raised, and if it is the last answer, again and again;
    - a function of the request, sync or async, that returns one of these.

    `requests` are what was asked. A model that is made anew after a crash goes on in the middle of its script: answers of its own
    that the conversation, or the turn, has had are passed over. `position="transcript"` takes the answer whose number is that of
    the assistant's messages in the request, whatever they say.
    """

    def __init__(
        self,
        answers: Iterable[Any],
        *,
        name: str = "scripted",
        position: Literal["counter", "transcript"] = "counter",
    ) -> None:
        if position not in ("counter", "transcript"):
            raise UsageError(f"position must be 'counter' or 'transcript', not {position!r}.")
        self.name = name
        self.requests: list[ChatRequest] = []
        self._answers = list(answers)
        self._by_transcript = position == "transcript"
        self._next = 0
        for place, answer in enumerate(self._answers):
            _check(f"Answer {place + 1} of the script", answer)
            # Written once, so that the model costs a benchmark next to nothing.
            self._answers[place] = _prepared(answer, place)

    @property
    def left(self) -> int:
        """Answers that nobody has asked for yet."""
        return len(self._answers) - self._next

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if self._by_transcript:
            place = sum(one.role == "assistant" for one in request.messages)
        else:
            place = self._next or _passed_over(self._answers, request.messages)
        self._next = place + 1
        if place >= len(self._answers):
            last: Any = self._answers[-1] if self._answers else None
            if _is_error(last):  # whoever tries again meets the same, not the end of the script
                raise last
            raise UsageError(
                f"The script of {self.name!r} has {len(self._answers)} answers and was asked for one more. "
                "Give it as many as the run asks for; `requests` holds what it was asked."
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
        if not isinstance(answer, _Said):
            raise answer
        asked = 3
        for message in request.messages:
            asked += len(message.content)
        usage = Usage(input_tokens=asked // 4, output_tokens=answer.tokens)
        return ChatReply(text=answer.text, uses=answer.uses, usage=usage)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        reply = await self.chat(request)
        for kind, text in (("thought", reply.thought), ("text", reply.text)):
            for piece in _pieces(text):
                tell(Delta(kind, piece))  # type: ignore[arg-type]  # one of the two kinds
        for number, use in enumerate(reply.uses):
            tell(Delta("name", use.name, number))
            for piece in _pieces(use.arguments):
                tell(Delta("arguments", piece, number))
        return reply


class _Said(msgspec.Struct, frozen=True):
    """An answer but for what the request adds to it. About four characters are a token: tests of budgets need figures that are
    alike, not right."""

    text: str
    uses: tuple[ToolUse, ...]
    tokens: int


def _passed_over(answers: Sequence[Any], messages: Sequence[ChatMessage]) -> int:
    """Where a script that is made anew in the middle of a turn goes on: behind the answers that the conversation, or else the turn,
    has had, if they are its own. Who scripts the rest alone is asked from its beginning."""
    begins = max((place for place, one in enumerate(messages) if one.role == "user"), default=0)
    turn = [one for one in messages[begins:] if one.role == "assistant"]
    whole = [one for one in messages if one.role == "assistant"]
    return next((place for said in (whole, turn) if turn and (place := _played(answers, said))), 0)


def _played(answers: Sequence[Any], said: Sequence[ChatMessage]) -> int:
    """How many answers were given, if these were the first of them; else 0."""
    place = 0
    for message in said:
        while place < len(answers) and _is_error(answers[place]):  # it was raised, and another one asked for
            place += 1
        if place == len(answers) or not _is_same(answers[place], message):
            return 0
        place += 1
    return place


def _is_same(answer: Any, message: ChatMessage) -> bool:
    if not isinstance(answer, _Said | ChatReply):
        return True  # a function: it may have said so
    calls = [(use.name, use.arguments) for use in answer.uses]
    return answer.text == message.content and calls == [(use.name, use.arguments) for use in message.uses]


def _prepared(answer: Any, place: int) -> Any:
    if isinstance(answer, str):
        return _Said(answer, (), (len(answer) + 3) // 4)
    if not isinstance(answer, Sequence):
        return answer
    uses = tuple(
        ToolUse(id=f"call_{place + 1}_{number}", name=tool, arguments=_written(arguments))
        for number, (tool, arguments) in enumerate(answer, 1)
    )
    return _Said("", uses, (sum(len(use.name) + len(use.arguments) for use in uses) + 3) // 4)


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


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
