"""One fact about a call. Events of a call are numbered 1, 2, 3 … without gaps, and are never changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from clicket.kernel import State

__all__ = ["Event", "EventType", "dump_events", "load_call", "load_events"]

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
        """Does this event end the call? A `late_result` after the end does not end it again."""
        return self.type == "state_changed" and self.state.is_terminal


_Row = tuple[int, float, EventType, State, dict[str, Any]]
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[_Row])


def dump_events(events: Iterable[Event]) -> bytes:
    """Events of one call as they are stored: rows in JSON, the call's id left to the store."""
    return _encoder.encode([(e.seq, e.at, e.type, e.state, e.data) for e in events])


def load_events(call_id: str, text: bytes) -> list[Event]:
    """The inverse of `dump_events`; raises a MsgspecError or a ValueError on foreign text."""
    return [Event(call_id, seq, at, kind, state, data) for seq, at, kind, state, data in _decoder.decode(text)]


def load_call(call_id: str, units: Sequence[bytes], last: int | None = None) -> tuple[list[Event], str | None]:
    """All events of a call, or none and the reason why they cannot be a call's. For stores that others may write to.

    `last` is the number of the last event as the store has it beside the events.
    """
    events: list[Event] = []
    try:
        for unit in units:
            events += load_events(call_id, unit)
    except (msgspec.MsgspecError, ValueError, RecursionError, TypeError) as error:
        return [], f"not events as clicket writes them: {error}"
    if not events:
        return [], "there are no events"
    if last is not None and last != events[-1].seq:
        return [], f"there are {events[-1].seq}, where {last} are on record"
    if any(event.seq != number for number, event in enumerate(events, start=1)):
        return [], "their numbers are not 1, 2, 3 …"
    first = events[0]
    names = (first.data.get("tool"), first.data.get("thread"), first.data.get("caller", ""))
    if first.type != "created" or not all(type(name) is str for name in names):
        return [], "the first one does not say what was called, and by whom"
    return events, None
