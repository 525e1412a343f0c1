"""Chores: each on its own timer, never concurrent with itself, retried after an error, ended in order."""

from __future__ import annotations

import asyncio

import pytest

from clicket.engine.local.background import Background
from clicket.engine.local.tasks import Tasks
from clicket.errors import StoreUnavailable
from clicket.testing import StepClock


class Parts:
    def __init__(self) -> None:
        self.clock, self.done = StepClock(), list[str]()
        self.background = Background(self.clock, Tasks().spawn)

    def chore(self, name: str, seconds: float = 1.0, *, while_closing: bool = False) -> None:
        async def do() -> None:
            self.done.append(name)

        self.background.every(seconds, name, do, while_closing=while_closing)


async def test_each_is_done_every_so_many_seconds_from_the_start_on() -> None:
    parts = Parts()
    parts.chore("a", 1.0)
    await parts.clock.run(5.0)
    assert parts.done == []
    parts.background.start()
    parts.chore("b", 2.0)  # a feature registers its own later
    await parts.clock.run(4.5)
    assert (parts.done.count("a"), parts.done.count("b")) == (4, 2)


async def test_one_that_takes_long_is_not_begun_a_second_time() -> None:
    parts, gate, begun = Parts(), asyncio.Event(), list[int]()

    async def slow() -> None:
        begun.append(1)
        await gate.wait()

    parts.background.every(1.0, "slow", slow)
    parts.background.start()
    await parts.clock.run(10.0)
    assert len(begun) == 1
    gate.set()
    await parts.clock.run(1.0)
    assert len(begun) == 2


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("a bug")])
async def test_one_that_fails_is_logged_and_tried_again(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    parts, tries = Parts(), list[int]()

    async def fails() -> None:
        tries.append(1)
        raise error

    parts.background.every(1.0, "fails", fails)
    parts.background.start()
    await parts.clock.run(3.5)
    assert len(tries) == 3
    assert "fails" in caplog.text


async def test_one_that_keeps_failing_is_logged_once_a_minute_and_when_it_works_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts, tries = Parts(), 0

    async def fails() -> None:
        nonlocal tries
        tries += 1
        if tries <= 100:
            raise StoreUnavailable("the disk is full")

    parts.background.every(1.0, "renew", fails)
    parts.background.start()
    await parts.clock.run(110.0)
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition(" (")[0] for line in said] == [
        "renew: the disk is full",
        "renew: the disk is full",
        "renew: works again, after 100 failures",
    ]


async def test_while_closing_only_what_running_calls_need_goes_on() -> None:
    parts = Parts()
    parts.chore("sweep")
    parts.chore("renew", while_closing=True)
    parts.background.start()
    parts.background.wind_down()
    await parts.clock.run(2.5)
    assert parts.done == ["renew", "renew"]
    parts.background.stop()
    await parts.clock.run(5.0)
    assert parts.done == ["renew", "renew"]
    assert parts.clock.pending == []


async def test_one_that_is_under_way_when_all_stop_is_not_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    parts, gate = Parts(), asyncio.Event()

    async def slow() -> None:
        await gate.wait()
        raise StoreUnavailable("closed")

    parts.background.every(1.0, "slow", slow)
    parts.background.start()
    await parts.clock.run(1.0)
    parts.background.stop()
    gate.set()
    await parts.clock.run(5.0)
    assert parts.clock.pending == []
    assert caplog.text == "", "a closed store is not logged then"


async def test_one_that_is_under_way_when_the_runtime_closes_is_not_begun_again() -> None:
    parts, gate, begun = Parts(), asyncio.Event(), list[int]()

    async def slow() -> None:
        begun.append(1)
        await gate.wait()

    parts.background.every(1.0, "slow", slow)
    parts.background.start()
    await parts.clock.run(1.0)
    parts.background.wind_down()
    gate.set()
    await parts.clock.run(5.0)
    assert len(begun) == 1
