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
