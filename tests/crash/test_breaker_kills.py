"""The breaker does not count kills of the host as tool failures: it refuses no later call because of them."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import msgspec
import pytest
from tests.crash.breaker_scene import (
    BOOKINGS,
    IN_FLIGHT,
    NAMES,
    THREADS,
    booked,
    carry_out,
    fly,
    refused,
    tend,
)
from tests.crash.nest import Nest
from tests.crash.settle import Place, read_lines
from tests.kit.waiting import PATIENCE

from clicket import Runtime


async def killed_in_flight(nest: Nest, place: Place, kills: int) -> None:
    for _ in range(kills):
        ending = await nest.raise_child(fly, msgspec.to_builtins(place), signals=[(0.0, signal.SIGKILL)], ready=True)
        assert ending.by_parent
    answers = read_lines(Path(place.folder, "calls"), str)
    assert len(answers) == kills * len(NAMES) * len(THREADS)
    assert answers == [""] * len(answers), f"{sum(map(bool, answers))} of {len(answers)} calls were refused"
    async with Runtime([], settings=place.settings()) as rt:
        found = (await rt.history(state="failed", limit=1_000)).items
        assert [record.error.code for record in found if record.error] == ["outcome_unknown"] * len(found)
        assert len(found) >= (kills - 1) * IN_FLIGHT


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_calls_after_kills_are_not_refused(place: Place, nest: Nest) -> None:
    await killed_in_flight(nest, place, 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_calls_after_forty_kills_are_not_refused(place: Place, nest: Nest) -> None:
    await killed_in_flight(nest, place, 40)


async def tasks_killed(nest: Nest, place: Place, tasks: int, kills: int, longest: float) -> None:
    """Every task ends as it would without kills: each booking is made once, and no call is refused. A process lives
    `longest` seconds at most between two kills."""
    chance = random.Random(f"{tasks} {kills}")
    killed = 0
    for _ in range(kills):
        at = [(chance.uniform(longest / 10, longest), signal.SIGKILL)]
        given = {"place": msgspec.to_builtins(place), "tasks": tasks}
        killed += (await nest.raise_child(tend, given, signals=at, ready=True)).by_parent
    assert killed  # the number of kills depends on the machine: later processes find all tasks done
    async with asyncio.timeout(PATIENCE):
        assert set(await carry_out(place, tasks)) <= {"finished", "over"}
    folder = Path(place.folder)
    assert not refused(folder)
    wanted = [(f"task{task}", number) for task in range(tasks) for number in range(1, BOOKINGS + 1)]
    assert sorted(booked(folder)) == sorted(wanted)


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_tasks_of_agents_that_are_killed_end_like_direct_execution(place: Place, nest: Nest) -> None:
    await tasks_killed(nest, place, 4, 12, 0.06)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_many_tasks_of_agents_that_are_killed(place: Place, nest: Nest) -> None:
    await tasks_killed(nest, place, 15, 30, 0.15)
