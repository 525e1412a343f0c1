"""Typed answers: asks for an answer of the turn's type in the way that the model takes it, and reads each answer. One that does not fit
is refused, with what is wrong; the model is asked again."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.agents.middleware import Middleware
from clicket.agents.output import Output, Read
from clicket.agents.turn import Turn
from clicket.agents.turn_limits import RefusedAs
from clicket.agents.verdicts import Refuse
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolOffer, ToolUse, TypedBy
from clicket.model.codec import decode, encode
from clicket.model.ports import ChatModel

__all__ = ["ANSWER_TOOL", "Invalid", "TypedAnswers"]

ANSWER_TOOL = "final_answer"
"""Offered to models that take tools, but no schema."""
_ABOUT_TOOL = "Gives the final answer. Call it once, when everything else is done."
_ASK = "When you are done, answer with one JSON value that fits this JSON Schema, and with nothing else:"


class Invalid(Refuse, frozen=True, tag_field="do", tag="refuse"):
    """An answer that does not fit the type."""

    stopped: RefusedAs = "invalid_output"


class TypedAnswers(Middleware):
    """`by`: how its model is asked for a type."""

    name = "output"
    is_derived = True  # the turn records the type when it begins, and each value with its reply

    def __init__(self, by: TypedBy) -> None:
        self._by = by

    @classmethod
    def by(cls, model: ChatModel) -> TypedAnswers:
        return cls(getattr(model, "typed_by", "text"))

    def _way(self, turn: Turn) -> TypedBy:
        way: TypedBy = self._by if turn.model is None else getattr(turn.model, "typed_by", "text")
        return way

    def before_model(self, turn: Turn, request: ChatRequest) -> ChatRequest | None:
        output = turn.output
        if output is None:
            return None
        by = self._way(turn)
        if by == "schema":
            return msgspec.structs.replace(request, schema=output.schema, schema_name=output.name)
        if by == "tool":
            offer = ToolOffer(name=ANSWER_TOOL, description=_ABOUT_TOOL, input_schema=output.schema)
            choice = request.tool_choice if request.tools else "required"
            return msgspec.structs.replace(request, tools=(*request.tools, offer), tool_choice=choice)
        return _asked_in_text(request, output)

    def after_model(self, turn: Turn, reply: ChatReply) -> ChatReply | Refuse | None:
        output = turn.output
        if output is None:
            return None
        by = self._way(turn)
        answers = [use for use in reply.uses if use.name == ANSWER_TOOL and by == "tool"]
        others = tuple(use for use in reply.uses if use not in answers)
        if others and not answers:
            return None
        read = _read_use(output, answers[0]) if answers else output.read(reply.text)
        if read.errors:
            if others:  # their results are read first; the answer is asked for again
                return msgspec.structs.replace(reply, uses=others)
            text = "\n".join(("This answer does not fit:", *read.errors))
            if by == "schema":  # a gateway may have left it out: the model has not seen it then
                text += _schema_line(output)
            if not answers:
                return Invalid(text)
            return Invalid(f"You answered: {answers[0].arguments[:_MAX_SHOWN]}\n{text}")
        turn.answer_with(read.value)
        return msgspec.structs.replace(reply, text=encode(read.value).decode(), uses=others)


_MAX_SHOWN = 4_000


def _schema_line(output: Output[Any]) -> str:
    schema = encode(output.schema).decode()
    return f"\nThe JSON Schema is: {schema}" if len(schema) <= _MAX_SHOWN else ""


def _read_use(output: Output[Any], use: ToolUse) -> Read:
    try:
        value = decode(use.arguments or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Read(errors=(f"(answer): the arguments are not JSON: {error}",))
    return output.read_value(value)


def _asked_in_text(request: ChatRequest, output: Output[Any]) -> ChatRequest:
    first = request.messages[0] if request.messages else None
    text = f"{_ASK}\n{encode(output.schema).decode()}"
    if first is None or first.role != "system":
        return msgspec.structs.replace(request, messages=(ChatMessage(role="system", content=text), *request.messages))
    system = msgspec.structs.replace(first, content=f"{first.content}\n\n{text}")
    return msgspec.structs.replace(request, messages=(system, *request.messages[1:]))
