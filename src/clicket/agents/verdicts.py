"""What middleware and checks decide about a turn. A turn records a verdict before it has an effect; a turn that goes on after a crash
reads it from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage

__all__ = ["Ask", "Change", "Edit", "Pass", "Refuse", "Verdict", "verdict_in"]


class Pass(msgspec.Struct, frozen=True, tag_field="do", tag="pass"):
    """Nothing is to change. The same as None."""


class Change(msgspec.Struct, frozen=True, tag_field="do", tag="change"):
    """`value` takes the place: the arguments of a call, or the text of a result or an answer."""

    value: Any


class Refuse(msgspec.Struct, frozen=True, tag_field="do", tag="refuse"):
    """The model reads `text` in place of a call's result, or asks for a better answer because of it."""

    text: str


class Ask(msgspec.Struct, frozen=True, tag_field="do", tag="ask"):
    """A person decides, and reads `text` as the reason."""

    text: str


class Edit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="do", tag="edit"):
    """Changes a request to the model.

    `instructions`: a text after the instructions of the agent, in this request. `tools`: names of the offered tools that this request
    offers, and that its reply may call. `add`: messages of the user or the assistant that enter the turn before this request. `drop`:
    ids of messages (`ChatMessage.id` of `request.messages`) that this request and the later ones of the turn leave out; a tool call and
    its result are left out together.
    """

    instructions: str = ""
    tools: list[str] | None = None
    add: list[ChatMessage] = []
    drop: list[str] = []

    def __post_init__(self) -> None:
        for message in self.add:
            if not isinstance(message, ChatMessage) or message.role not in ("user", "assistant") or message.uses:
                raise UsageError(
                    f"Edit(add=…) takes messages of the user or the assistant, ChatMessage(role='user', content='…'), not {message!r:.100}."
                )
        for name, given in (("tools", self.tools), ("drop", self.drop)):
            if given is not None and (isinstance(given, str) or not all(isinstance(each, str) for each in given)):
                raise UsageError(f"Edit({name}=…) takes a list of texts, not {given!r:.100}.")

    @property
    def is_empty(self) -> bool:
        return not (self.instructions or self.tools is not None or self.add or self.drop)


Verdict = Edit | Change | Refuse | Ask | Pass


def verdict_in(recorded: Mapping[str, Any]) -> Verdict | None:
    """A recorded verdict; None if another program has written something else."""
    try:
        verdict: Verdict = msgspec.convert(recorded, Verdict)
    except msgspec.ValidationError:
        return None
    return verdict
