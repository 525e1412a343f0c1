"""One fact about a call. Events of a call are numbered 1, 2, 3 … without gaps, and are never changed."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from clicket.kernel import State

__all__ = ["Event", "EventType"]

EventType = Literal[
    "created",
    "state_changed",
    "stage_ended",
    "attempt_started",
    "output",
    "progress",
    "heartbeat",
    "cancel_requested",
    "approval_requested",
    "approval_given",
    "late_result",
    "reconcile_started",
    "reconcile_ended",
    "reported",
    "resolved",
    "note",
]


class Event(msgspec.Struct, frozen=True, gc=False):
    """`state` is the call's state after the event; `at` is seconds since the epoch."""

    call_id: str
    seq: int
    at: float
    type: EventType
    state: State
    data: dict[str, Any]

    @property
    def is_terminal(self) -> bool:
        """Does this event end the call? A `late_result` or a `resolved` after the end does not end it again."""
        return self.type == "state_changed" and self.state.is_terminal

    def __repr__(self) -> str:
        return f"<event {self.seq} of call {self.call_id}: {self.type}, {self.state}>"
