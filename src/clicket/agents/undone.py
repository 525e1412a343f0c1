"""What the model reads of calls that were undone after their turn."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clicket.model.chat import ChatMessage
from clicket.model.ids import alias_of

__all__ = ["Undone", "undone_message"]


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a turn whose effect was undone, by the call `undo`."""

    call: str
    tool: str
    undo: str
    turn: int = 0


def undone_message(items: Sequence[Undone]) -> ChatMessage:
    lines = (f"- {each.tool}, call {alias_of(each.call)} of turn {each.turn}" for each in items)
    text = "\n".join(("[These calls were undone, in this order. Their effects do not hold any more.]", *lines))
    return ChatMessage(role="user", content=text, vendor={"clicket": {"undone": [each.undo for each in items]}})
