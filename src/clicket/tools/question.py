"""A question of a tool to a person, asked while the call is under way: a form, or a link that the person opens.

It waits like an approval (`record.approval`, with `purpose` "input"), and `rt.respond`, `rt.approve` and `rt.deny` answer it. An answer
never ends the call: the tool gets it, also the answer that no person wants to, or did, answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from clicket.errors import ClicketError, InvalidInput, UsageError
from clicket.tools.check import compile_schema

__all__ = ["INPUT", "InputAnswer", "InputNeeded", "InputQuestion", "check_content", "input_answer", "question_of"]

INPUT = "input"
"""The `purpose` of such a question in `record.approval`."""


class InputQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`key` tells the questions of one call apart. `source` is the name of the asking system, from the settings. With a `schema` the answer
    is an object that fits it; with a `url` a person opens the link, and the answer has no content."""

    key: str
    source: str
    message: str
    schema: dict[str, Any] | None = None
    url: str = ""

    @property
    def why(self) -> str:
        """The question in one line, for lists."""
        link = f" ({self.url})" if self.url else ""
        return f"{self.source} asks: {self.message}{link}"


class InputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`decline`: a person refused to answer. `cancel`: no answer came in time, or the question was withdrawn."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class InputNeeded(ClicketError):
    """Raised by a body that cannot go on without an answer. The call waits without a slot; with the answer on record the body runs again,
    and continues from its checkpoints. `timeout`: seconds until the answer is `cancel`; None: it waits for ever."""

    code = "input_needed"
    blames_tool = False

    def __init__(self, question: InputQuestion, timeout: float | None) -> None:
        super().__init__(question.why)
        self.question = question
        self.timeout = timeout


def question_of(asked: Mapping[str, Any] | None) -> InputQuestion | None:
    """The question in the data of an `approval_requested` event, or in `record.approval`. None: it asks for an approval."""
    if asked is None or asked.get("purpose") != INPUT:
        return None
    try:
        return msgspec.convert(asked.get("question"), InputQuestion)
    except msgspec.ValidationError:  # another program wrote it
        return InputQuestion(key="", source="an unknown system", message="", schema={})


def input_answer(given: Mapping[str, Any]) -> InputAnswer:
    """The answer in the data of an `approval_given` event."""
    if given.get("expired") is True:
        return InputAnswer(action="cancel")
    if given.get("approved") is not True:
        return InputAnswer(action="decline")
    content = given.get("output")
    return InputAnswer(action="accept", content=content if isinstance(content, dict) else None)


def check_content(question: InputQuestion, content: Any, call_id: str) -> dict[str, Any]:
    """The content of an answer; `InvalidInput` or `UsageError` if the question cannot be answered with it."""
    if question.schema is None:
        raise UsageError(
            f"call {call_id!r} asks a person to open a link, and takes no content. When that is done, approve it; to refuse, deny it."
        )
    if type(content) is not dict:
        raise InvalidInput(
            [{"path": "", "message": "the answer is an object with the fields of the form"}], whole="(answer)"
        )
    problems = compile_schema({"additionalProperties": False, **question.schema}, "the form")(content)
    if problems:
        raise InvalidInput(problems, f"{question.source} asks for these fields.", whole="(answer)")
    return content
