"""The agent machine. A run that stops at its step limit goes back to idle; only an answer or a finished plan is finished."""

from __future__ import annotations

from collections.abc import Generator

from clicket.kernel.table import StrEnum, Table

__all__ = ["AGENT", "AgentState"]


class AgentState(StrEnum):
    IDLE = "idle"
    RUNNING = "running"
    FINISHED = "finished"
    ERROR = "error"

    def __await__(self) -> Generator[None, None, AgentState]:
        """`agent.state(thread)` returns at once; awaiting its value, as most of a runtime's methods need it, gives the same."""
        return self
        yield


AGENT = Table(
    "agent",
    AgentState,
    AgentState.IDLE,
    {
        AgentState.IDLE: {AgentState.RUNNING},
        AgentState.RUNNING: {AgentState.FINISHED, AgentState.IDLE, AgentState.ERROR},
        AgentState.FINISHED: {AgentState.IDLE},
        AgentState.ERROR: {AgentState.IDLE},
    },
)
