"""Which worker gets the message of a call."""

from __future__ import annotations

from typing import Any

from tests.unit.engine.fakes import Recorder

from clicket.engine.fleet.placement import ROOM_EVERY, Placement
from clicket.model.ports import Bus
from clicket.testing import StepClock


def placement() -> tuple[Placement, Any, StepClock]:
    bus: Any = Recorder(Bus, me=1, trouble=None)
    clock = StepClock()
    return Placement(bus, clock), bus, clock


def test_the_worker_with_most_room_for_the_tool_gets_the_call() -> None:
    place, _, _ = placement()
    place.on_room(5, b'{"a":2,"b":1}')
    place.on_room(6, b'{"a":1}')
    assert [place.choose("a") for _ in range(3)] == [5, 5, 6]
    assert place.choose("b") < 0, "calls of the other tool use its free slots"


def test_without_a_worker_every_process_gets_one_message() -> None:
    place, bus, _ = placement()
    assert (place.choose("a"), place.choose("a")) == (0, 0)
    assert bus.names == ["post"]
    bus.trouble = "away"
    place.ask_once()
    bus.trouble = None
    place.ask_once()
    assert bus.names == ["post", "post"], "again, after messages were unavailable"


def test_full_workers_are_notified_in_turn_and_one_of_calls_of_the_same_time() -> None:
    place, _, clock = placement()
    for worker in (5, 6):
        place.on_room(worker, b'{"a":10}')
        place.on_room(worker, b'{"a":0}')
    first = {place.choose("a") for _ in range(10)}
    clock.advance(1.0)
    second = {place.choose("a") for _ in range(10)}
    assert (len(first), len(second), first | second) == (1, 1, {-5, -6})
    assert {place.choose("a") for _ in range(10)} == first, (
        "more calls than one worker could start are told to the next"
    )


def test_a_call_that_ended_makes_room() -> None:
    place, _, _ = placement()
    place.on_room(5, b'{"a":1}')
    place.placed(70, place.choose("a"))
    assert place.choose("a") == -5
    place.ended(70)
    place.ended(70)
    place.ended(71)
    assert (place.choose("a"), place.choose("a")) == (5, -5), "once, also if the message is doubled"


def test_a_full_worker_is_offered_nothing_until_it_says_that_it_has_room() -> None:
    """Calls that wait in the store take the slots that come free there."""
    place, _, _ = placement()
    place.on_room(5, b'{"a":2}')
    for key in (70, 71):
        place.placed(key, place.choose("a"))
    place.on_room(5, b'{"a":0}')
    place.ended(70)
    place.ended(71)
    assert place.choose("a") == -5
    place.on_room(5, b'{"a":1}')
    assert place.choose("a") == 5


async def test_workers_that_left_or_fell_silent_are_forgotten() -> None:
    place, _, clock = placement()
    place.on_room(5, b'{"a":1}')
    place.on_room(6, b'{"a":1}')
    place.on_room(6, b"{}")
    assert place.choose("a") == 5
    await clock.run(ROOM_EVERY * 4)
    assert place.choose("a") == 0


def test_what_is_no_room_is_ignored() -> None:
    place, _, _ = placement()
    for body in (b"", b"[]", b'{"a":"x"}', b"\xff"):
        place.on_room(5, body)
    assert place.choose("a") == 0


def test_a_call_that_ended_before_the_answer_of_its_commit_takes_no_room() -> None:
    place, _, _ = placement()
    place.on_room(5, b'{"a":1}')
    for key in range(3):
        assert place.choose("a") == 5
        place.ended(key)
        place.placed(key, 5)
