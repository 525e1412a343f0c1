"""A process whose agents hand a turn to each other is killed at every instant at which something happened. Another one finishes it: each
payment is made once, each handoff is on record once, and the answers are the same."""

from __future__ import annotations

import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.agent_scene import Death, effects
from tests.crash.handoff_scene import HANDED, MESSAGES, Scene, agent_at, play, runtime_at
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.stores import Fresh, Row

from clicket import Runtime

ANSWERS = [
    "desk at your service: [billing has handed this conversation to you, desk: done]",
    "desk at your service: thanks",
]


async def handed(rt: Runtime, turn: int) -> list[tuple[str, str]]:
    record = await rt.get(f"turn-{turn}", thread="agent:triage/t")
    notes = [event.data.get("entry", {}) for event in record.events if event.type == "note"]
    return [(entry["by"], entry["agent"]) for entry in notes if entry.get("e") == "handoff"]


async def finished(place: Place) -> None:
    """Bring both turns to their end, and check what holds however they were killed."""
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        results: list[Any] = [await agent.run(message, thread="t", id=message) for message in MESSAGES]
        assert [await handed(rt, turn) for turn in (1, 2)] == HANDED
        calls = [call for call in (await rt.history(limit=100)).items if call.tool == "pay"]
        turns = (await agent.history("t")).turns
        shown = [event.data["to"] for event in await agent.recorded("t", 1) if event.type == "handoff"]
    assert [(result.agent, result.text) for result in results] == [("desk", text) for text in ANSWERS]
    assert shown == ["billing", "desk"]
    assert len(calls) == 2, "each payment was asked for once"
    paid = Counter(each.call for each in effects(Path(place.folder)))
    assert set(paid.values()) <= {1}, f"something was paid twice: {paid}"
    unknown = [call for call in calls if call.error is not None and call.error.code == "outcome_unknown"]
    assert len(paid) + len(unknown) >= 2
    read = [message.content for turn in turns for message in turn.messages if message.role == "user"]
    assert [text.partition(" ")[0] for text in read] == ["refund", "[triage", "[billing", "thanks"]


async def everywhere(served: tuple[Row, Fresh], nest: Nest, folder: Path, one_of: int) -> int:
    """Kill at every n-th instant until the process ends before it. Returns how often it was killed."""
    for killed, number in enumerate(count(1, one_of)):
        logs = folder / str(number)
        logs.mkdir()
        place = Place(store=served[1](logs), folder=str(logs))
        ending = await nest.raise_child(
            play, msgspec.to_builtins(Scene(place=place, death=Death(at=number, side="any")))
        )
        assert not ending.hung
        try:
            await finished(place)
        except AssertionError as error:
            raise AssertionError(f"killed at {number}") from error
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), ending
            return killed
    raise AssertionError


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_killed_at_every_instant(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    assert await everywhere(served, nest, tmp_path, 1) >= 20


@pytest.mark.parametrize("served", ["redis", "postgres"], indirect=True)
async def test_killed_here_and_there(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    assert await everywhere(served, nest, tmp_path, 2) >= 10
