"""One call in memory, and which of many are to be removed."""

from __future__ import annotations

import msgspec

from clicket.kernel import State
from clicket.model import Event, events_in
from clicket.model.ports import Stored
from clicket.model.unit import Unit

__all__ = ["CALL_SIZE", "MemoryCall"]

CALL_SIZE = 2_000
"""Bytes that a call is taken to weigh, artifacts aside: events are objects here, and have no exact size."""


class MemoryCall(msgspec.Struct, eq=False, gc=False):
    """Units are kept as they came, one behind the other: a list would be one more object for the garbage collector to walk."""

    id: str
    thread: str
    caller: str
    tool: str
    key: int
    fence: int
    state: State
    created_at: float
    last: int
    first_unit: Unit | None
    priority: int
    queue: str
    """Empty: the one of its tool's name."""
    second_unit: Unit | None = None
    units: list[Unit] | None = None
    """Those after the second."""
    ended_at: float | None = None
    artifacts: tuple[tuple[str, int], ...] = ()
    claims: int = 1
    owned: bool = True
    signalled: bool = False
    waiting_for: str | None = None
    kept: bool = False
    """No sweep removes it: see `OnRemove`."""

    @property
    def weight(self) -> int:
        return CALL_SIZE + sum(size for _, size in self.artifacts)

    def add(self, unit: Unit) -> None:
        if self.units is not None:
            self.units.append(unit)
        elif self.first_unit is None:
            self.first_unit = unit
        elif self.second_unit is None:
            self.second_unit = unit
        else:
            self.units = [unit]

    @property
    def events(self) -> list[Event]:
        kept = (self.first_unit, self.second_unit, *(self.units or ()))
        return [event for unit in kept if unit is not None for event in events_in(unit, self.id)]

    def stored(self) -> Stored:
        owner = 1 if self.owned else None
        return Stored(key=self.key, fence=self.fence, claims=self.claims, owner=owner, events=self.events, id=self.id)

    def claimed(self) -> Stored:
        self.fence += 1
        self.claims += 1
        self.owned, self.signalled = True, False
        return self.stored()
