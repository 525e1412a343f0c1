"""The process of a turn with pictures is killed at every instant: the model gets the same requests, with the same pictures."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death
from tests.crash.nest import Nest
from tests.crash.picture_scene import THREAD, Scene, agent_at, play, runtime_at
from tests.crash.settle import Place
from tests.kit.pictures import png


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def judged(place: Place) -> None:
    folder = Path(place.folder)
    asked = defaultdict[int, set[str]](set)
    for step, messages, shown in lines(folder / "asked"):
        asked[step].add(json.dumps([messages, shown], sort_keys=True))
        assert len(shown) == step + 1, "a picture was not sent"
        assert all(name == f"sha256-{digest}" for name, digest in shown.items()), "another picture was sent"
    assert {len(requests) for requests in asked.values()} == {1}, "the model saw two requests for one step"
    assert sorted(asked) == [0, 1, 2]
    async with runtime_at(place) as rt:
        (turn,) = (await agent_at(rt, place).history(THREAD)).turns
        assert (turn.text, turn.stopped) == ("There.", "finished")
        refs = [ref for message in turn.messages for ref in message.files]
        assert [await rt.artifact(ref.artifact) for ref in refs] == [png(shade=1), png(8), png(9)]


async def test_a_kill_at_any_instant_repeats_the_request_with_its_pictures(nest: Nest, tmp_path: Path) -> None:
    killed = 0
    for number in count(1):
        folder = tmp_path / str(number)
        (folder / "logs").mkdir(parents=True)
        place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
        ending = await nest.raise_child(
            play, msgspec.to_builtins(Scene(place=place, death=Death(at=number, side="any")))
        )
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), ending
            await judged(place)
            break
        killed += 1
        ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place)))
        assert (ending.signal, ending.code) == (0, 0), f"after the kill at {number}: {ending}"
        await judged(place)
    assert killed >= 8, killed
