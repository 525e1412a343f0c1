"""What another process wrote into a call since its owner last looked, told apart from the owner's own unit."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.errors import ClicketError
from clicket.model import Event

__all__ = ["Fenced", "news_since"]


class Fenced(ClicketError):
    """This process has the call no more: another one owns it, or it waits for one. What happens to it is read from the store; of a body
    that still runs here only a late result can be recorded."""

    code = "fenced"


def news_since(stored: Sequence[Event], expect: int, ours: Sequence[Event]) -> tuple[list[Event], int, bool]:
    """Events of other processes after number `expect`; by how much our own numbers must rise; and whether our unit is there.

    Our unit is there when it was written and only the answer was lost. Written again it would be a second outcome.
    """
    foreign = [event for event in stored if event.seq > expect]
    written = _place_of(ours, foreign)
    if written is not None:
        foreign = foreign[:written] + foreign[written + len(ours) :]
        return foreign, len(foreign), True
    # Usually the number of foreign events; less when a unit of ours was given up and our own numbers ran ahead.
    return foreign, stored[-1].seq - expect, False


def _place_of(unit: Sequence[Event], events: Sequence[Event]) -> int | None:
    """At which place a unit stands among events, its numbers aside; None if it does not."""
    if not unit:
        return None
    wanted = [(event.at, event.type, event.data) for event in unit]
    found = [(event.at, event.type, event.data) for event in events]
    places = range(len(found) - len(wanted) + 1)
    return next((at for at in places if found[at : at + len(wanted)] == wanted), None)
