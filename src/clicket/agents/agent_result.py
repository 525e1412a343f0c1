"""What an agent gives its callers: `AgentResult` of a turn, `AgentEvent` while it runs, `ThreadView` of a thread."""

from __future__ import annotations

from typing import Any, Generic, Literal

import msgspec
from typing_extensions import TypeVar

from clicket.agents.origin import Origin
from clicket.agents.turn_limits import AnswerEnd, Stopped
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, Usage

__all__ = ["AgentEvent", "AgentEventType", "AgentResult", "Sent", "ThreadView"]

T = TypeVar("T", default=Any)

AgentEventType = Literal[
    "state",
    "message",
    "thought",
    "plan",
    "tool_started",
    "tool_progress",
    "tool_result",
    "delta",
    "usage",
    "retry",
    "fallback",
    "restart",
    "decision",
    "answer",
    "handoff",
    "undone",
    "final",
    "error",
]


class AgentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about a turn. An event with an `id` is recorded, and later readers get it too. Pieces of an answer (`delta`), progress
    of tools and retries of the model have no id and reach live readers only; with `deltas="stored"` pieces have one, and readers in any
    process get them until their answer is on record. `restart` voids the pieces of its step."""

    type: AgentEventType
    thread: str
    turn: int
    at: float
    step: int = 0
    id: str = ""
    """`TURN-ENTRY.NUMBER`, of a stored piece `TURN-ENTRY.0.OFFSET`: a reader resumes after it."""
    data: dict[str, Any] = {}


class AgentResult(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """How a turn ended. `steps`, `calls` and `usage` are of this turn. `messages` are those of the thread, this turn's at the end."""

    text: str
    state: AgentState
    stopped: Stopped
    steps: int
    usage: Usage
    messages: list[ChatMessage]
    thread: str
    turn: int
    calls: int = 0
    begins: int = 0
    """The index of the turn's first message in `messages`."""
    plan: dict[str, Any] | None = None
    ended: AnswerEnd | None = None
    """How the last answer ended; None unless `stopped` is `finished`."""
    value: T | None = None
    """The answer as a value of the type that was asked for; None unless `stopped` is `finished`."""
    agent: str = ""
    """The name of the agent that answered: the one that was asked, or the last one to which the turn was handed."""

    @property
    def new_messages(self) -> list[ChatMessage]:
        return self.messages[self.begins :]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is stored. `turn`: the number of the turn that has taken it; None until one has."""

    id: str
    turn: int | None = None


class ThreadView(msgspec.Struct, frozen=True, kw_only=True):
    """A thread of an agent, read from the store."""

    thread: str
    agent: str
    state: AgentState
    turns: int
    stopped: Stopped | None = None
    text: str = ""
    steps: int = 0
    usage: Usage = Usage()
    """Of all turns that have ended."""
    error: str = ""
    plan: dict[str, Any] | None = None
    updated_at: float = 0.0
    waiting_for: list[str] = []
    """Ids of tool calls of the running turn that wait for an approval; `budget`, while requests under way have reserved what is left;
    `resume`, in a fork with a turn up to a step."""
    origin: Origin | None = None
    """Of a fork."""
