"""What the events of a call say about its attempts: deaths of its workers, retries, a denial that no process has applied yet."""

from __future__ import annotations

from typing import Any

from clicket.call import Call
from clicket.journal import Entry
from clicket.kernel import State
from clicket.model import ToolError

__all__ = ["deaths_of", "denial_in", "retries_of", "unknown_outcome"]

_AT_WORK = (State.INITIALIZING, State.RUNNING, State.STREAMING)


def denial_in(entry: Entry) -> dict[str, Any] | None:
    """The decision of a person who denied the call while no process had it."""
    given = next((e for e in reversed(entry.events) if e.type == "approval_given"), None)
    return given.data if given is not None and given.data.get("approved") is not True else None


def deaths_of(entry: Entry) -> int:
    """How often a worker died over this call. Waiting and a release do not count. A turn of an agent takes long, so only deaths
    since its last step count, or since it waited for a person."""
    before = 0
    for event in entry.events:
        if event.type == "note":
            if "claims" in event.data and event.state in _AT_WORK:
                before += 1
            elif entry.internal and ("entry" in event.data or "waits" in event.data):
                before = 0
    return before + (entry.state in _AT_WORK)


def retries_of(call: Call) -> int:
    """How many retries were used. A run after a death is not a retry."""
    retrying = (
        e.data.get("error") or {} for e in call.entry.events if e.type == "state_changed" and e.state is State.RETRYING
    )
    return sum(1 for error in retrying if error.get("code") != "outcome_unknown")


def unknown_outcome(message: str) -> ToolError:
    return ToolError(code="outcome_unknown", message=message, type="OutcomeUnknown")
