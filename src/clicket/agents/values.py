"""What a run gives back, and what is told while it goes on."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from clicket.agents.limits import Stopped
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, Usage

__all__ = ["AgentEvent", "AgentEventType", "AgentResult", "ThreadView"]

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
    "final",
    "error",
]


class AgentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about a turn. Those with an `id` are on record and are told again to who comes later; pieces of an answer
    (`delta`), a tool's progress and retries of the model have none and are only told live."""

    type: AgentEventType
    thread: str
    turn: int
    at: float
    step: int = 0
    id: str = ""
    """`TURN-ENTRY.NUMBER`: where a reader goes on."""
    data: dict[str, Any] = {}


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. `steps`, `calls` and `usage` are this run's; `messages` are the thread's, the run's own last."""

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
    """The place of the run's first message among `messages`."""
    plan: dict[str, Any] | None = None

    @property
    def new_messages(self) -> list[ChatMessage]:
        return self.messages[self.begins :]


class ThreadView(msgspec.Struct, frozen=True, kw_only=True):
    """A thread of an agent as the store has it."""

    thread: str
    agent: str
    state: AgentState
    turns: int
    stopped: Stopped | None = None
    text: str = ""
    steps: int = 0
    usage: Usage = Usage()
    """Of all its turns that have ended."""
    error: str = ""
    plan: dict[str, Any] | None = None
    updated_at: float = 0.0
    waiting_for: list[str] = []
    """Ids of tool calls of the turn under way that wait for a person."""
