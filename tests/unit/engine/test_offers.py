"""Calls that notices offer: started if they can start now, else left to the next claim."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.engine.fakes import Recorder

from clicket.engine.offers import Offers
from clicket.kernel import State
from clicket.model import Event, dump_unit, rows_of


class World:
    def __init__(self, room: int = 1) -> None:
        self.room = room
        self.started: list[Any] = []
        self.starts = True
        self.notices: Any = Recorder(me=9, trouble=None)
        self.claimer: Any = Recorder(has_room=lambda tool: tool == "t" and self.room > 0)
        self.offers = Offers(self.notices, self.claimer, rooms=lambda: {"t": self.room}, start=self._start)

    def _start(self, stored: Any) -> bool:
        self.started.append(stored)
        self.room -= self.starts
        return self.starts


def offer(tool: str = "t", fence: int = 1) -> bytes:
    event = Event("a", 1, 1.0, "created", State.PENDING, {"tool": tool, "thread": "", "arguments": {}})
    return msgspec.json.encode(("a", fence, 1.0, msgspec.Raw(dump_unit(rows_of([event])))))


def test_an_offer_is_started_with_the_next_fence() -> None:
    world = World()
    world.offers.on_offer(7, offer(fence=3))
    (stored,) = world.started
    assert (stored.key, stored.id, stored.fence, stored.owner, len(stored.events)) == (7, "a", 4, None, 1)
    assert "nudge" not in world.claimer.names


def test_a_worker_without_room_looks_when_a_slot_is_free_and_says_that_it_is_full() -> None:
    world = World(room=0)
    world.offers.on_offer(7, offer())
    assert world.started == []
    assert world.claimer.names == ["expect_more"]
    assert world.notices.names == ["post"]


def test_the_offer_that_fills_the_worker_makes_it_look_later() -> None:
    world = World(room=1)
    world.offers.on_offer(7, offer())
    assert world.claimer.names == ["expect_more"]


def test_what_cannot_start_or_be_read_is_left_to_the_claims_of_waiting_calls() -> None:
    world = World()
    world.starts = False
    world.offers.on_offer(7, offer())
    assert world.claimer.names == ["nudge"]
    for body in (b"", b"[]", b'["a",1,1.0,{"no":"unit"}]', b'["a",1,1.0,[]]'):
        world.claimer.calls.clear()
        world.offers.on_offer(7, body)
        assert world.claimer.names == ["nudge"]


def test_room_is_told_when_it_comes_or_goes_and_not_else() -> None:
    world = World(room=2)
    world.offers.announce_changes()
    world.room = 1
    world.offers.announce_changes()
    assert world.notices.names == ["post"]
    world.room = 0
    world.offers.announce_changes()
    assert world.notices.names == ["post"] * 2
    world.notices.trouble = "away"
    world.offers.announce_room()
    world.notices.trouble = None
    world.offers.announce_changes()
    assert world.notices.names == ["post"] * 3, "again, after notices were unavailable"
