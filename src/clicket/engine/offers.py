"""Calls that a notice offers to this worker: claimed by the commit that starts them, if they can start now.

The notice has the call's first events, so nothing is read before the commit. The commit is refused if the call has an owner by then, or
is not as the notice says; then this process forgets it. A call that cannot start now is left to the claims of waiting calls.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from clicket.engine.claimer import WorkClaimer
from clicket.model import Event, load_call
from clicket.ports import Notices, Stored

__all__ = ["Offers"]

_Offer = tuple[str, int, float, msgspec.Raw]
"""The call's id, its fence, when it was made, and its events as they are stored."""
_decode = msgspec.json.Decoder(_Offer).decode
_encode = msgspec.json.Encoder().encode


class Offers:
    """`start(stored)` starts a call that no process owns yet; False: it cannot start now."""

    def __init__(
        self,
        notices: Notices,
        claimer: WorkClaimer,
        *,
        rooms: Callable[[], dict[str, int]],
        start: Callable[[Stored], bool],
    ) -> None:
        self._notices = notices
        self._claimer = claimer
        self._rooms = rooms
        self._start = start
        self._announced: frozenset[str] | None = None
        """Tools with room, as the other processes were told."""

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
            self.announce_room()
            return
        stored = Stored(key=key, fence=fence + 1, claims=2, owner=None, events=events, id=id)
        if not self._start(stored):
            self._claimer.nudge()
        if not self._claimer.has_room(tool):
            self._claimer.expect_more()
        self.announce_changes()

    def announce_changes(self) -> None:
        """Tell the other processes if tools got room, or lost it."""
        if self._notices.trouble is None and self._with_room() != self._announced:
            self.announce_room()

    def announce_room(self) -> None:
        """Tell the other processes how many more calls of each tool could start here."""
        if self._notices.trouble is not None:
            self._announced = None
            return
        rooms = self._rooms()
        if rooms:
            self._announced = frozenset(tool for tool, room in rooms.items() if room > 0)
            counts = {tool: max(room, 0) for tool, room in rooms.items()}
            self._notices.post("room", self._notices.me, body=_encode(counts), soon=False)

    async def tell_room(self) -> None:
        """A chore: tell it from time to time, as notices may be lost."""
        self.announce_room()

    def leave(self) -> None:
        """This process starts no more calls."""
        if self._announced is not None:
            self._notices.post("room", self._notices.me, body=b"{}")

    def _with_room(self) -> frozenset[str]:
        return frozenset(tool for tool, room in self._rooms().items() if room > 0)


def _tool_of(events: list[Event]) -> str:
    return str(events[0].data["tool"])
