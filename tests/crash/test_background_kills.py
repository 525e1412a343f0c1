"""A turn with calls in the background and a limit of tokens is killed at every instant at which something happened. What the model has read
of these calls holds; the cancelled one ends; each request on record counts once, those of the called agent too, so the limit holds as
without a kill."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.agent_scene import Death
from tests.crash.background_scene import EACH, THREAD, Scene, agent_at, play, runtime_at
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.kit.waiting import eventually

from clicket import State

ALL, TOO_FEW = 1000, 45
"""Tokens: for the whole turn, and for all but its last request: three of its own, and two of the agent that it calls."""


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def judged(place: Place, max_tokens: int) -> None:
    folder = Path(place.folder)
    ends = ["all done", "finished", 4 * EACH.total] if max_tokens == ALL else None
    (used,) = {tuple(each) for each in lines(folder / "used")}
    read = defaultdict[int, set[str]](set)
    for step, results in lines(folder / "asked"):
        read[step].add(json.dumps(results))
    assert {len(each) for each in read.values()} == {1}, "the model read other results of one step"
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        (turn,) = (await agent.history(THREAD)).turns
        assert turn.called is not None
        assert turn.called.total == 2 * EACH.total
        if ends is not None:
            assert list(used) == ends
            assert sorted(read) == [0, 1, 2, 3]
        else:
            assert used[1:] == ("budget", 3 * EACH.total)
            assert "Reached the budget of tokens (50 of 45)" in used[0]
            assert sorted(read) == [0, 1, 2]
        assert turn.usage.total == used[2]
        told = [m.content for m in turn.messages if m.role == "tool" and m.content.startswith("fetch ")]
        assert [text.partition(".")[0] for text in told] in (["fetch is being cancelled"], ["fetch has ended"]), told

        async def fetched() -> list[State]:
            calls = (await rt.history(tool="fetch", order="asc")).items
            return [each.state for each in calls] if all(each.state.is_terminal for each in calls) else []

        assert sorted(await eventually(fetched)) == [State.CANCELLED, State.COMPLETED]


@pytest.mark.parametrize("max_tokens", [ALL, TOO_FEW])
async def test_background_calls_and_limits_hold_after_a_kill(nest: Nest, tmp_path: Path, max_tokens: int) -> None:
    killed = 0
    for number in count(1):
        folder = tmp_path / str(number)
        (folder / "logs").mkdir(parents=True)
        place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
        scene = Scene(place=place, max_tokens=max_tokens)
        first = msgspec.structs.replace(scene, death=Death(at=number, side="any"))
        ending = await nest.raise_child(play, msgspec.to_builtins(first))
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), ending
            await judged(place, max_tokens)
            break
        killed += 1
        ending = await nest.raise_child(play, msgspec.to_builtins(scene))
        assert (ending.signal, ending.code) == (0, 0), f"after the kill at {number}: {ending}"
        await judged(place, max_tokens)
    assert killed >= 15, killed
