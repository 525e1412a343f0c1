"""The times that a call has waited for a person, a credential or a result from outside, numbered from 1. A call may wait more than
once: for an approval, and then for answers to questions of its tool. An answer is about one of them."""

from __future__ import annotations

from clicket.model import Record
from clicket.model.record import fold

__all__ = ["Wait", "as_answered", "as_asked", "wait_number"]

Wait = tuple[str, int]
"""The id of a call, and the number of the wait."""


def wait_number(record: Record) -> int:
    """The number of the wait that is on record last; 0: it never waited."""
    return len(_places(record))


def as_asked(record: Record, number: int) -> Record:
    """The record as it was when this wait began."""
    places = _places(record)
    return record if not 1 <= number <= len(places) else fold(record.events[: places[number - 1] + 1])


def as_answered(record: Record, number: int) -> Record:
    """The record as it was before the next wait began; if there is no next one, as it is."""
    places = _places(record)
    return record if not 1 <= number < len(places) else fold(record.events[: places[number]])


def _places(record: Record) -> list[int]:
    """Where in the events each wait begins. A wait that is noted again while it lasts is one wait."""
    places: list[int] = []
    waiting: str | None = None
    for place, event in enumerate(record.events):
        if event.type == "approval_requested":
            places.append(place)
            waiting = "approval"
        elif "waiting_for" in event.data:
            before, waiting = waiting, event.data["waiting_for"]
            if waiting in ("credential", "external") and waiting != before:
                places.append(place)
    return places
