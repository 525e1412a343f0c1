"""Killed at every write: an evaluation goes on, what is on record is not run again, and no tool runs."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path

import msgspec
from tests.crash.eval_scene import CASES, EvalScene, play
from tests.crash.nest import Nest
from tests.crash.settle import Place

from clicket import Runtime
from clicket.evals import report_of, runs_of


async def test_a_killed_evaluation_goes_on(nest: Nest, tmp_path: Path) -> None:
    killed = 0
    for number in count(1):
        folder = tmp_path / str(number)
        (folder / "logs").mkdir(parents=True)
        place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
        scene = EvalScene(place=place, dies_at=(number + 1) // 2, before=bool(number % 2))
        first = await nest.raise_child(play, msgspec.to_builtins(scene))
        async with Runtime(settings=place.settings()) as rt:
            runs = [run async for run in runs_of(rt)]
            kept = await report_of(rt, "eval", runs[0].run) if runs else None
        asked = (folder / "logs/asked").read_text().count("\n") if (folder / "logs/asked").exists() else 0
        if first.signal != signal.SIGKILL:
            assert first.code == 0
            break
        killed += 1
        second = await nest.raise_child(play, msgspec.to_builtins(EvalScene(place=place)))
        assert (second.signal, second.code) == (0, 0)
        assert (folder / "logs/reports").read_text().splitlines() == ["[5, 5]"]
        again = (folder / "logs/asked").read_text().count("\n") - asked
        is_whole = kept is not None and runs[0].ended_at is not None
        assert again == (len(CASES) if is_whole else len(CASES) - (0 if kept is None else len(kept.trials)))
        assert not (folder / "logs/paid").exists()
    assert killed >= 2 * (1 + len(CASES) + 1)
