"""What people ask of agents, killed at random: no payment is made twice or forgotten, and the answer is the one without a kill, or says of
which payment the outcome is not known."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.agent_scene import Death
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.task_scene import TASKS, Scene, options_of, play, runtime_at

UNKNOWN = "outcome_unknown"


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def played(nest: Nest, task: str, folder: Path, at: int) -> int:
    """Run the task, killed at this instant, and then again until it ends. Returns how often it was killed."""
    (folder / "logs").mkdir(parents=True)
    place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
    for kills in count():
        scene = Scene(place=place, task=task, death=Death(at=0 if kills else at, side="any"))
        ending = await nest.raise_child(play, msgspec.to_builtins(scene))
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), f"{task}, killed at {at}: {ending}"
            return kills
    raise AssertionError


async def judged(task: str, folder: Path, expected: str | None) -> None:
    place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
    async with runtime_at(place, **options_of(task)) as rt:
        records = [record for record in (await rt.history(limit=500)).items if record.tool in ("pay", "report")]
    unknown = [record for record in records if record.error is not None and record.error.code == UNKNOWN]
    effects = Counter(tuple(effect) for effect in lines(folder / "logs" / "effects"))
    assert not [effect for effect, times in effects.items() if times > 1], f"repeated: {effects}"
    paid = Counter((record.caller, record.arguments["bill"]) for record in records if record.success)
    assert not [record for record in records if not record.state.is_terminal], "left open"
    assert paid - effects == Counter(), "paid on record, without an effect"
    doubted = Counter((record.caller, record.arguments["bill"]) for record in unknown)
    assert effects - paid - doubted == Counter(), "an effect that no record knows"
    told = lines(folder / "logs" / "told")[-1]
    if any(record.tool == "pay" for record in unknown):  # a background call is read as a message
        assert told != expected or "paid" not in expected, "the answer does not say that an outcome is unknown"
    elif expected is not None:
        assert told == expected


async def undisturbed(nest: Nest, task: str, folder: Path) -> str:
    assert await played(nest, task, folder, 0) == 0
    await judged(task, folder, None)
    told: str = lines(folder / "logs" / "told")[-1]
    return told


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
async def test_a_task_survives_kills(nest: Nest, tmp_path: Path, task: str, kills: int) -> None:
    expected = await undisturbed(nest, task, tmp_path / "undisturbed")
    chance = random.Random(f"{task} {kills}")
    end, killed = 24, 0
    while killed < kills:
        at = chance.randint(1, end)
        folder = tmp_path / f"{killed} {at} {chance.random()}"
        if not await played(nest, task, folder, at):
            end = max(at - 1, 4)  # it ended before
            continue
        killed += 1
        await judged(task, folder, expected)
