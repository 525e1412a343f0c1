"""Middleware is killed with its process at every instant of a turn: no decision that was seen is ever made again."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death
from tests.crash.middleware_scene import THREAD, Scene, agent_at, play, runtime_at
from tests.crash.nest import Nest
from tests.crash.settle import Place


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def judged(place: Place) -> None:
    folder = Path(place.folder)
    asked = defaultdict[int, set[str]](set)
    for step, messages in lines(folder / "asked"):
        asked[step].add(json.dumps(messages))
    assert {len(requests) for requests in asked.values()} == {1}, "the model saw two requests for one step"
    assert sorted(asked) == [0, 1, 2, 3]
    bills = defaultdict[str, set[str]](set)
    for call, bill in lines(folder / "effects"):
        bills[call].add(bill)
    assert {len(each) for each in bills.values()} == {1}, "a call ran with other arguments"
    assert len(bills) == 3
    assert len(set(lines(folder / "stamped"))) == 1, "the tool that it brings was called once"
    (used,) = set(lines(folder / "used"))
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        (turn,) = (await agent.history(THREAD)).turns
        shown = [message.content for message in turn.messages if message.role == "user"]
        assert turn.text == used
        assert turn.stopped == "finished"
        (answer,) = [m.content for m in turn.messages if m.role == "assistant" and not m.uses]
        assert used.startswith(f"{answer} signed ")
        assert answer.startswith("second try ")
        assert [text.split()[0] for text in shown] == ["Pay.", "hint", "hint", "hint", "hint"]
        seen = [message.content for message in turn.messages if message.role == "tool"]
        last = json.loads(next(iter(asked[3])))
        assert [content for role, content in last[1:] if role == "tool"] == seen
        assert last[0] == ["tools", "pay", "stamp"]


async def test_what_was_seen_of_a_decision_holds_after_a_kill(nest: Nest, tmp_path: Path) -> None:
    killed = 0
    for number in count(1):
        folder = tmp_path / str(number)
        (folder / "logs").mkdir(parents=True)
        place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
        first = Scene(place=place, death=Death(at=number, side="any"))
        ending = await nest.raise_child(play, msgspec.to_builtins(first))
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), ending
            await judged(place)
            break
        killed += 1
        ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place)))
        assert (ending.signal, ending.code) == (0, 0), f"after the kill at {number}: {ending}"
        await judged(place)
    assert killed >= 10, killed
