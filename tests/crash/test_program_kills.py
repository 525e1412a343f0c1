"""A program whose process is killed runs again: finished uses are not repeated, and what is not known is said."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.nest import Nest
from tests.crash.program_scene import CALL, COUNT, PROGRAM, THREAD, Death, effects, live, tools_at
from tests.crash.settle import Place
from tests.crash.stores import Fresh, Row
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound

from clicket import Record, Runtime, State


async def killed(place: Place, nest: Nest, death: Death, task: str = PROGRAM) -> None:
    life = {"place": msgspec.to_builtins(place), "death": msgspec.to_builtins(death), "task": task}
    ending = await nest.raise_child(live, life)
    assert ending.signal == signal.SIGKILL, f"{death}: {ending}"
    assert not ending.hung


async def resumed(place: Place, task: str = PROGRAM) -> tuple[Any, Record, list[Record]]:
    async with Runtime(tools_at(Path(place.folder)), settings=place.settings()) as rt:
        await rt.recover()
        handle = await rt.submit("code_interpreter", {"task": task}, id=CALL, thread=THREAD)  # the same call
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        record = await rt.get(CALL, thread=THREAD)
        page = await rt.history(thread=THREAD, limit=1_000)
        uses = [each for each in page.items if each.id != CALL]
    assert_sound(record)
    for use in uses:
        assert_sound(use)
    return result, record, uses


def judge(folder: Path, result: Any, death: Death) -> None:
    """Effects: at most once each, but for reads that were under way. The program knows what happened."""
    assert result.state is State.COMPLETED, result.error
    done = effects(folder)
    charges = [n for name, n in done if name == "charge"]
    assert len(charges) == len(set(charges)), f"{death}: repeated in silence: {done}"
    expected = [f"charge {n}" if n % 2 else f"look {n}" for n in range(1, COUNT + 1)]
    if death.at and death.at % 2:  # it may or may not have had its effect
        expected[death.at - 1] = "outcome_unknown"
    assert result.output["value"] == repr(expected)
    finished = [each for each in done if each[1] != death.at]
    assert len(finished) == COUNT - 1, f"{death}: a finished use was repeated: {done}"


@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_killed_in_a_use(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    row, fresh = served
    every = [
        Death(at=1, when="after"),
        Death(at=2, when="before"),
        Death(at=5, when="before"),
        Death(at=6, when="after"),
    ]
    for number, death in enumerate(every if row.name == "sqlite" else every[1:3]):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = Place(store=fresh(folder), folder=str(folder))
        await killed(place, nest, death)
        result, record, uses = await resumed(place)
        judge(folder, result, death)
        assert len(record.attempts) == 2
        assert sorted(use.id for use in uses) == [f"{CALL}.u{n}" for n in range(1, COUNT + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_killed_again_and_again(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    _, fresh = served
    place = Place(store=fresh(tmp_path), folder=str(tmp_path))
    for at in (2, 4, 6):  # reads, which run again
        await killed(place, nest, Death(at=at, when="before"))
    result, record, _ = await resumed(place)
    assert result.output["value"] == repr([f"charge {n}" if n % 2 else f"look {n}" for n in range(1, COUNT + 1)])
    assert len(record.attempts) == 4
    assert sorted(map(tuple, effects(tmp_path))) == sorted(
        ("charge" if n % 2 else "look", n) for n in range(1, COUNT + 1)
    )


@pytest.mark.slow
@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_killed_at_any_instant(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    _, fresh = served
    chance = random.Random(11)
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = Place(store=fresh(folder), folder=str(folder))
        life = {"place": msgspec.to_builtins(place), "death": {"at": 0, "when": "never"}}
        instant = (chance.uniform(0.0, 0.3), int(signal.SIGKILL))
        ending = await nest.raise_child(live, life, signals=[instant], ready=True)
        assert not ending.hung
        result, _, _ = await resumed(place)
        assert result.state is State.COMPLETED, result.error
        charges = [n for name, n in effects(folder) if name == "charge"]
        assert len(charges) == len(set(charges))
        known = eval(result.output["value"])
        assert all(found in (f"charge {n}", f"look {n}", "outcome_unknown") for n, found in enumerate(known, 1)), known


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_a_program_that_diverges_is_told_so(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    _, fresh = served
    place = Place(store=fresh(tmp_path), folder=str(tmp_path))
    task = "import os, random\nn = random.randrange(10**9)\ntools.look(n=n)\ntools.charge(n=2)\ntools.charge(n=3)"
    await killed(place, nest, Death(at=3, when="before"), task)
    result, _, _ = await resumed(place, task)
    assert result.state is State.FAILED
    assert (result.error.code, result.error.type) == ("tool_error", "ProgramDiverged")
    assert "use 1 of a tool (look)" in result.error.message
    assert [name for name, _ in effects(tmp_path)] == ["look", "charge"], "nothing more was done"
