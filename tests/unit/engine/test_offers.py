"""Calls that messages offer: started if they can start now, else left to the next claim."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.engine.fakes import Recorder

from clicket.engine.fleet.capacity import Capacity
from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.fleet.offers import Offers
from clicket.engine.inputs import Inputs
from clicket.kernel import State
from clicket.model import Event, dump_unit, rows_of
from clicket.ports import Bus as _Bus
from clicket.testing import StepClock


class Bus(Recorder):
    """Messages, of which those about room are kept."""

    def __init__(self, told: list[Any]) -> None:
        super().__init__(_Bus, me=9, trouble=None)
        self._told = told

    def post(self, kind: str, key: int, *, body: bytes, **_: Any) -> None:
        self.calls.append(("post", kind))
        self._told.append(msgspec.json.decode(body))


class Parts:
    def __init__(self, room: int = 1) -> None:
        self.room = room
        self.started: list[Any] = []
        self.starts = True
        self.told: list[Any] = []
        """What other processes were told of the room here."""
        self.bus: Any = Bus(self.told)
        self.claimer: Any = Recorder(WorkClaimer, has_more=False, has_room=lambda tool: tool == "t" and self.room > 0)
        self.clock = StepClock()
        capacity: Any = Recorder(Capacity, offered=lambda: {"t": self.room})
        inputs: Any = Recorder(Inputs, offered=self._start)
        self.offers = Offers(self.bus, self.clock, self.claimer, capacity, inputs)

    def _start(self, stored: Any) -> bool:
        self.started.append(stored)
        self.room -= self.starts
        return self.starts


def offer(tool: str = "t", fence: int = 1) -> bytes:
    event = Event("a", 1, 1.0, "created", State.PENDING, {"tool": tool, "thread": "", "arguments": {}})
    return msgspec.json.encode(("a", fence, 1.0, msgspec.Raw(dump_unit(rows_of([event])))))


def test_an_offer_is_started_with_the_next_fence() -> None:
    parts = Parts()
    parts.offers.on_offer(7, offer(fence=3))
    (stored,) = parts.started
    assert (stored.key, stored.id, stored.fence, stored.owner, len(stored.events)) == (7, "a", 4, None, 1)
    assert "nudge" not in parts.claimer.names


def test_a_worker_without_room_looks_when_a_slot_is_free_and_says_that_it_is_full() -> None:
    parts = Parts(room=0)
    parts.offers.on_offer(7, offer())
    assert parts.started == []
    assert parts.claimer.names == ["expect_more"]
    assert parts.bus.names == ["post"]


def test_the_offer_that_fills_the_worker_makes_it_look_later() -> None:
    parts = Parts(room=1)
    parts.offers.on_offer(7, offer())
    assert parts.claimer.names == ["expect_more"]


def test_what_cannot_start_or_be_read_is_left_to_the_claims_of_waiting_calls() -> None:
    parts = Parts()
    parts.starts = False
    parts.offers.on_offer(7, offer())
    assert parts.claimer.names == ["nudge"]
    for body in (b"", b"[]", b'["a",1,1.0,{"no":"unit"}]', b'["a",1,1.0,[]]'):
        parts.claimer.calls.clear()
        parts.offers.on_offer(7, body)
        assert parts.claimer.names == ["nudge"]


def test_a_full_worker_says_so_once() -> None:
    parts = Parts(room=0)
    for key in range(7, 12):
        parts.offers.on_offer(key, offer())
    assert parts.bus.names == ["post"]


async def test_while_calls_wait_in_the_store_no_room_is_announced() -> None:
    """They have precedence, so an offered call would not start."""
    parts = Parts(room=2)
    parts.claimer.has_more = True
    parts.offers.announce_changes()
    parts.claimer.has_more = False
    parts.offers.announce_changes()
    await parts.clock.run(1.0)
    assert parts.told == [{"t": 0}, {"t": 2}]


async def test_room_that_comes_and_goes_is_not_announced() -> None:
    """Under load it would be announced for every few calls, to all processes."""
    parts = Parts(room=0)
    parts.offers.announce_changes()
    for _ in range(10):
        parts.room = 2
        parts.offers.announce_changes()
        await parts.clock.run(0.1)
        parts.room = 0
        parts.offers.announce_changes()
    await parts.clock.run(10.0)
    assert parts.told == [{"t": 0}]


async def test_free_slots_are_announced_only_when_they_appear_or_vanish_or_are_many_more() -> None:
    parts = Parts(room=2)
    parts.offers.announce_changes()
    parts.room = 1
    parts.offers.announce_changes()
    parts.room = 4
    parts.offers.announce_changes()
    assert parts.told == [{"t": 2}]
    parts.room = 5
    parts.offers.announce_changes()
    parts.offers.announce_changes()
    await parts.clock.run(1.0)
    assert parts.told == [{"t": 2}, {"t": 5}]
    parts.bus.calls.clear()
    parts.offers.announce_room()
    parts.room = 0
    parts.offers.announce_changes()
    assert parts.bus.names == ["post"] * 2
    parts.bus.trouble = "away"
    parts.offers.announce_room()
    parts.bus.trouble = None
    parts.offers.announce_changes()
    assert parts.bus.names == ["post"] * 3, "again, after messages were unavailable"
