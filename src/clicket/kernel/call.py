"""The call machine: one request to run a tool, from accepted to its single outcome. Terminal states lead nowhere, ever."""

from __future__ import annotations

from clicket.kernel.table import StrEnum, Table

__all__ = ["CALL", "State"]


class State(StrEnum):
    PENDING = "pending"
    INITIALIZING = "initializing"
    RUNNING = "running"
    STREAMING = "streaming"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    RETRYING = "retrying"

    @property
    def is_terminal(self) -> bool:
        return self in CALL.terminal

    @property
    def is_active(self) -> bool:
        return self in _ACTIVE


_ACTIVE = frozenset({State.RUNNING, State.STREAMING, State.RETRYING})
_ENDED_BADLY = {State.FAILED, State.TIMEOUT, State.CANCELLED}

CALL = Table(
    "call",
    State,
    State.PENDING,
    {
        State.PENDING: {State.INITIALIZING, State.COMPLETED, *_ENDED_BADLY},
        State.INITIALIZING: {State.RUNNING, *_ENDED_BADLY},
        State.RUNNING: {State.STREAMING, State.COMPLETED, State.RETRYING, *_ENDED_BADLY},
        State.STREAMING: {State.COMPLETED, State.RETRYING, *_ENDED_BADLY},
        State.RETRYING: {State.RUNNING, *_ENDED_BADLY},
    },
)
