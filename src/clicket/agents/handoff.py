"""Handoffs: to which agents an agent may hand a turn over, the tools `hand_to_NAME` by which its model does it, and what the other agent
reads of the thread."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ToolOffer
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

__all__ = [
    "HandTool",
    "Handoff",
    "History",
    "Named",
    "handoffs_of",
    "hidden_from",
    "is_note",
    "note_message",
    "offers_of",
]

History = Literal["all", "last", "none"]
_PREFIX = "hand_to_"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,56}")
"""Vendors take names of tools with at most 64 characters."""
_SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string", "description": "Why, and what the other agent must know."}},
    "required": ["reason"],
    "additionalProperties": False,
}


class Named(Protocol):
    """An agent."""

    @property
    def name(self) -> str: ...


class Handoff(msgspec.Struct, frozen=True):
    """To an agent, or to the one of this runtime with this name. `description`: for the model, when to do it. `history`: what the other
    agent reads: `all` of the thread, the caller's `last` message and the reason, or the reason alone (`none`)."""

    agent: Named | str
    description: str = ""
    history: History = "all"

    @property
    def name(self) -> str:
        return self.agent if isinstance(self.agent, str) else self.agent.name

    @property
    def tool(self) -> str:
        return _PREFIX + self.name

    @property
    def label(self) -> str:
        """As the identity of an agent has it."""
        return self.name if self.history == "all" else f"{self.name} ({self.history})"


class HandTool(ToolDefaults):
    """A call has no effect: the turn goes on with the other agent when all calls of its reply have ended. So policies, approvals and checks
    decide about handoffs as about other calls."""

    traits = Traits(listed=False, holds_slot=False)
    is_async = True
    options = Options(timeout=30, max_retries=0, read_only=True)
    input_schema: Mapping[str, Any] = _SCHEMA

    def __init__(self, handoff: Handoff) -> None:
        self.name: str = handoff.tool
        self.description: str = f"Hands the conversation to the agent {handoff.name!r}."
        self._to = handoff.name

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> str:
        return f"{self._to} goes on with this conversation."

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


def handoffs_of(given: Any, own: str) -> dict[str, Handoff]:
    """What an agent of the name `own` declares, by the names of the tools."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(
            f"handoffs is a list of agents, of their names or of Handoff(…): write handoffs=[{given!r:.60}]."
        )
    found: dict[str, Handoff] = {}
    for each in given:
        handoff = each if isinstance(each, Handoff) else Handoff(each)
        if not isinstance(getattr(handoff.agent, "name", handoff.agent), str):
            raise UsageError(
                f"handoffs: {each!r:.100} is not an agent, the name of one, or Handoff(agent, description=…)."
            )
        if not _NAME.fullmatch(handoff.name):
            raise UsageError(
                f"handoffs: the tool {handoff.tool!r} cannot be made. An agent that others hand to has a name of up to 56 letters, "
                "digits, '_' or '-', because models take at most 64 in the name of a tool."
            )
        if handoff.history not in get_args(History):
            raise UsageError(f"handoffs: history is 'all', 'last' or 'none', not {handoff.history!r:.60}.")
        if handoff.name == own:
            raise UsageError(f"the agent {own!r} cannot hand over to itself.")
        if handoff.tool in found:
            raise UsageError(f"handoffs has {handoff.name!r} twice.")
        found[handoff.tool] = handoff
    return found


def offers_of(handoffs: Iterable[Handoff]) -> list[ToolOffer]:
    """As the model gets them."""
    about = "Hands the conversation to the agent {}, which answers in your place. Call no other tool with it."
    return [
        ToolOffer(
            name=each.tool,
            description="\n".join(filter(None, (about.format(each.name), each.description))),
            input_schema=_SCHEMA,
        )
        for each in handoffs
    ]


def note_message(agent: str, by: str, reason: str, history: History) -> ChatMessage:
    """What the agent that takes over reads, as a part of the transcript."""
    because = f": {reason}" if reason else "."
    return ChatMessage(
        role="user",
        content=f"[{by} has handed this conversation to you, {agent}{because}]",
        vendor={"clicket": {"handoff": agent, "by": by, "history": history}},
    )


def hidden_from(agent: str, messages: Sequence[ChatMessage]) -> frozenset[int]:
    """Places of the messages that an agent does not read: it sees what the last handoff of the thread let it see."""
    for place in range(len(messages) - 1, -1, -1):
        mark = _mark(messages[place])
        if not is_note(messages[place]):
            continue
        if mark["handoff"] != agent or mark.get("history") == "all":
            break
        hidden = set(range(place))
        if mark.get("history") == "last":
            own = (at for at in reversed(range(place)) if messages[at].role == "user" and not _mark(messages[at]))
            hidden.discard(next(own, -1))
        return frozenset(hidden)
    return frozenset()


def is_note(message: ChatMessage) -> bool:
    """Was it made by `note_message`?"""
    return "handoff" in _mark(message)


def _mark(message: ChatMessage) -> Mapping[str, Any]:
    """What clicket says of a message that it wrote itself."""
    ours = None if message.vendor is None or message.role != "user" else message.vendor.get("clicket")
    return ours if isinstance(ours, Mapping) else {}
