"""A program that sends messages is killed at every instant at which something happened, and started again: each message is read once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death
from tests.crash.nest import Nest
from tests.crash.send_scene import SENT, THREAD, Scene, agent_at, play, runtime_at
from tests.crash.settle import Place


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def judged(place: Place) -> None:
    folder = Path(place.folder)
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        turns = (await agent.history(THREAD)).turns
        assert await agent.queued(THREAD) == []
        assert (await agent.look(THREAD)).state != "running"
    heard = [message.content for turn in turns for message in turn.messages if message.role == "user"]
    assert Counter(heard) == Counter(text for text, _ in SENT), "each message is in one turn, once"
    begun = [turn.messages[0].content for turn in turns if turn.messages[0].content != "and be quick"]
    assert begun == ["pay rent", "pay gas", "pay phone"], "in the order in which they were sent"
    paid = Counter(bill for _, bill in lines(folder / "effects"))
    assert set(paid.values()) == {1}, f"something was paid twice: {paid}"
    unknown = [turn for turn in turns if "outcome_unknown" in str(turn.messages)]
    assert len(paid) + len(unknown) >= len(turns)


async def test_each_message_is_read_once_whenever_its_sender_is_killed(nest: Nest, tmp_path: Path) -> None:
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
    assert killed >= 20, killed
