"""What an engine is doing now: counts that are in no journal, because they end with the process."""

from __future__ import annotations

import msgspec

__all__ = ["Activity", "HeldCall"]


class HeldCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that this process holds."""

    id: str
    thread: str
    caller: str
    tool: str
    waiting_for: str | None
    is_running: bool
    """It has a slot: its tool runs, or is about to."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """One process, now."""

    active: dict[str, int]
    """Calls that this process holds, by the state that the store has."""
    waiting_for_approval: int
    queued: int
    max_queue: int
    slots_used: int
    slots: int
    abandoned: int
    """Bodies that did not stop: their calls have ended, their slots are still taken."""
    unsaved: int
    """Calls whose last events could not be stored yet."""
    listener_errors: int
    due_released: int = 0
    """Calls with `not_before` that this process let run when they were due."""
    due_late_seconds: float = 0.0
    """By how much, in all."""
    schedule_firings: int = 0
    """Calls that this process made for schedules."""
    schedule_late_seconds: float = 0.0
