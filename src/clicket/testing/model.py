"""A language model that says what a test wrote for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from clicket.errors import UsageError
from clicket.model.chat import ChatReply, ChatRequest, Usage

__all__ = ["ScriptedModel"]


class ScriptedModel:
    """Answers in turn: a text is an answer, a `ChatReply` is one with its usage, an exception is raised.

    A list of `(tool, arguments)` pairs is a step of tool calls, which only an agent can take. `requests` are what was asked.
    """

    def __init__(self, answers: Iterable[Any], *, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ChatRequest] = []
        self._answers = list(answers)
        for number, answer in enumerate(self._answers, 1):
            _check(number, answer)

    @property
    def left(self) -> int:
        """Answers that nobody has asked for yet."""
        return len(self._answers) - len(self.requests)

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if len(self.requests) > len(self._answers):
            raise UsageError(
                f"The script of {self.name!r} has {len(self._answers)} answers and was asked for one more. "
                "Give it as many as the run asks for; `requests` holds what it was asked."
            )
        answer = self._answers[len(self.requests) - 1]
        if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
            raise answer
        if isinstance(answer, ChatReply):
            return answer
        if not isinstance(answer, str):
            raise UsageError(
                f"Answer {len(self.requests)} of {self.name!r} is a step of tool calls: that is for agents. "
                "Here a text is asked for."
            )
        # About four characters are a token: tests of budgets need figures that are alike, not right.
        asked = sum(len(one.content) for one in request.messages)
        return ChatReply(text=answer, usage=Usage(input_tokens=(asked + 3) // 4, output_tokens=(len(answer) + 3) // 4))


def _check(number: int, answer: Any) -> None:
    if isinstance(answer, str | ChatReply | BaseException):
        return
    if isinstance(answer, type) and issubclass(answer, BaseException):
        return
    if isinstance(answer, Sequence) and all(
        isinstance(one, Sequence) and len(one) == 2 and isinstance(one[0], str) for one in answer
    ):
        return
    raise UsageError(
        f"Answer {number} of the script is {type(answer).__name__}: a text, a ChatReply, an exception, or a list of "
        "(tool, arguments) pairs is wanted."
    )
