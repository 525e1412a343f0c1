"""What follows on what happens to a call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.drive.driver import Driver
from clicket.engine.lifecycle.next_steps import NextSteps
from clicket.engine.live_call import Call
from clicket.errors import QueueFull


@tool
async def echo() -> str:
    return "echo"


def driver_of(parts: Lower, **given: Any) -> Driver:
    driver = Driver()
    driver.parts = SimpleNamespace(core=parts.core, ending=parts.ending, **given)  # type: ignore[assignment]
    return driver


async def test_what_the_cache_has_is_the_result() -> None:
    parts = Lower(echo)
    call = parts.admitted("echo")
    driver_of(parts).found_in_cache(call, {"n": 1})
    assert call.result is not None
    assert (call.result.output, call.result.content, call.result.cached) == ({"n": 1}, '{"n":1}', True)


async def test_a_queue_that_is_full_after_a_wait_is_the_calls_own_error() -> None:
    parts = Lower(echo)
    call = parts.admitted("echo")
    parts.live.add(call)

    def full(call: Call) -> None:
        raise QueueFull("full")

    driver_of(parts, next_steps=Recorder(NextSteps, go_on=full)).go_on(call)
    with pytest.raises(QueueFull):
        await parts.ending.outcome(call)
    assert list(parts.live) == []
