"""Calls that a message offers to this worker: claimed by the commit that starts them, if they can start now.

The message has the call's first events, so nothing is read before the commit. The commit is refused if the call has an owner by then, or
is not as the message says; then this process forgets it. A call that cannot start now is left to the claims of waiting calls.
"""

from __future__ import annotations

import msgspec

from clicket.engine.fleet.capacity import Capacity
from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.inputs import Inputs
from clicket.model import Event, load_call
from clicket.model.ports import Bus, Clock, Stored, Timer

__all__ = ["Offers"]

_Offer = tuple[str, int, float, msgspec.Raw]
"""The call's id, its fence, when it was made, and its events as they are stored."""
_decode = msgspec.json.Decoder(_Offer).decode
_encode = msgspec.json.Encoder().encode
_GREW = 2
"""Room that has grown by this factor is announced again."""
_SETTLE = 0.25
"""Seconds for which a worker must have had more room than was told before it says so. Under load, room comes and goes all the time: then
calls wait, and one claim for many of them costs less than an offer of each."""


class Offers:
    def __init__(self, bus: Bus, clock: Clock, claimer: WorkClaimer, capacity: Capacity, inputs: Inputs) -> None:
        self._bus = bus
        self._clock = clock
        self._claimer = claimer
        self._capacity = capacity
        self._inputs = inputs
        self._settling: Timer | None = None
        self._announced: dict[str, int] | None = None
        """The room of each tool, as the other processes were told."""

    def on_offer(self, key: int, body: bytes) -> None:
        try:
            id, fence, _, unit = _decode(body)
        except msgspec.MsgspecError:
            self._claimer.nudge()
            return
        events, damaged = load_call(id, [bytes(unit)])
        if damaged is not None:
            self._claimer.nudge()
            return
        tool = _tool_of(events)
        if not self._claimer.has_room(tool):
            self._claimer.expect_more()
            self.announce_changes()
            return
        stored = Stored(key=key, fence=fence + 1, claims=2, owner=None, events=events, id=id)
        if not self._inputs.offered(stored):
            self._claimer.nudge()
        if not self._claimer.has_room(tool):  # else no other tool lost its last room, either
            self._claimer.expect_more()
            self.announce_changes()

    def announce_changes(self) -> None:
        """Tell the other processes if tools lost their room; and if they have much more of it than was told, once that has lasted."""
        if self._bus.trouble is not None:
            return
        room = self._room()
        if self._announced is None or _lost(room, self._announced):
            self._stop_settling()
            self.announce_room()
        elif not _grew(room, self._announced):
            self._stop_settling()
        elif self._settling is None:
            self._settling = self._clock.call_later(_SETTLE, self._settled)

    def _settled(self) -> None:
        self._settling = None
        if self._announced is None or _grew(self._room(), self._announced):
            self.announce_room()

    def _stop_settling(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None

    def announce_room(self) -> None:
        """Tell the other processes how many more calls of each tool could start here."""
        if self._bus.trouble is not None:
            self._announced = None
            return
        room = self._room()
        if room:
            self._announced = room
            self._bus.post("room", self._bus.me, body=_encode(room), soon=False)

    async def tell_room(self) -> None:
        """A chore: tell it from time to time, as messages may be lost."""
        self.announce_room()

    def leave(self) -> None:
        """This process starts no more calls."""
        self._stop_settling()
        if self._announced is not None:
            self._bus.post("room", self._bus.me, body=b"{}")

    def _room(self) -> dict[str, int]:
        """How many calls of each tool would start if they were offered now. While calls may wait in the store, none would."""
        if self._claimer.has_more:
            return dict.fromkeys(self._capacity.offered(), 0)
        return {tool: max(room, 0) for tool, room in self._capacity.offered().items()}


def _lost(room: dict[str, int], announced: dict[str, int]) -> bool:
    """Has a tool no room any more; or are the tools other ones?"""
    if room.keys() != announced.keys():
        return bool(room)
    return any(free == 0 and announced[tool] != 0 for tool, free in room.items())


def _grew(room: dict[str, int], announced: dict[str, int]) -> bool:
    return any(free > _GREW * announced.get(tool, 0) for tool, free in room.items())


def _tool_of(events: list[Event]) -> str:
    return str(events[0].data["tool"])
