"""The timers of waiting calls: one wait at a time, and none outlives its call."""

from __future__ import annotations

from tests.unit.engine.fakes import Lower

from clicket import tool


@tool
async def echo() -> str:
    return "echo"


async def test_time_is_up_once_and_with_its_reason() -> None:
    low = Lower(echo)
    call = low.made("echo")
    low.timers.wait(call, 3.0, "queue")
    low.timers.deadline(call, 5.0)
    low.clock.advance(2.9)
    assert low.log == []
    low.clock.advance(10.0)
    assert low.log == [("queue", call), ("deadline", call)]


async def test_a_new_wait_takes_the_place_of_the_last_one() -> None:
    low = Lower(echo)
    call = low.made("echo")
    low.timers.wait(call, 3.0, "queue")
    low.timers.wait(call, 6.0, "approval")
    assert low.clock.pending == [6.0]
    low.timers.end_wait(call)
    low.timers.end_wait(call)
    assert (low.clock.pending, call.wait_timer) == ([], None)


async def test_a_call_that_is_over_has_no_timer() -> None:
    low = Lower(echo)
    call = low.made("echo")
    low.timers.cancel(call)
    low.timers.wait(call, 3.0, "queue")
    low.timers.deadline(call, 5.0)
    low.timers.cancel(call)
    low.clock.advance(10.0)
    assert low.log == []
