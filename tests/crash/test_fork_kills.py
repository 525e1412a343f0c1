"""A program that makes forks, continues one and runs a turn again is killed at every instant at which something happened, and started
again: no fork is half made, and no effect is repeated without a record that says so."""

from __future__ import annotations

import json
import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death
from tests.crash.fork_scene import Scene, agent_at, begin, play, runtime_at
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.scenarios.agent_kit import check_pairs

from clicket.agents import ReActAgent

WHOLE = ["rent gas", "", "paid rent", "", "paid gas", "paid rent gas"]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def texts(agent: ReActAgent, thread: str) -> list[str]:
    messages = await agent.messages(thread)
    check_pairs(messages)
    return [message.content for message in messages if not message.content.startswith("[This conversation")]


async def judged_after_a_kill(place: Place) -> None:
    """A fork is there with all that it has, or nobody finds any of it."""
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        listed = {fork.thread for fork in await agent.forks("t")}
        for thread, after in (("whole", 1), ("cut", 0), ("again", 0)):
            view = await agent.look(thread)
            assert (view.origin is not None) == (thread in listed)
            if view.origin is None:
                assert view.turns == 0
                assert (await agent.history(thread)).turns == []
                assert await agent.recorded(thread, 1) == []
            else:
                assert view.origin.after == after
                assert view.turns >= after
        if "whole" in listed:
            assert await texts(agent, "whole") == WHOLE
            assert [event.type for event in await agent.recorded("whole", 1)].count("tool_result") == 2


async def judged(place: Place) -> None:
    folder = Path(place.folder)
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        assert await texts(agent, "t") == [*WHOLE, "phone", "", "paid phone", "paid phone"]
        assert await texts(agent, "whole") == WHOLE
        assert (await agent.look("whole")).turns == 1
        cut, again = await texts(agent, "cut"), await texts(agent, "again")
        unknown = [call.thread for call in (await rt.unknown()).items]
        replayed = [call for call in (await rt.history(thread="again")).items if "recorded" in call.metadata]
        assert {fork.thread for fork in await agent.forks("t")} == {"whole", "cut", "again"}
    assert len(replayed) == 2
    assert all(call.attempts == [] for call in replayed), "nothing of it ran"
    assert again == WHOLE
    paid = Counter(map(tuple, lines(folder / "effects")))
    assert set(paid.values()) <= {1}, f"something was paid twice: {paid}"
    assert not [bill for thread, bill in paid if thread in ("again", "whole")]
    assert ("cut", "rent") not in paid, "its result is on record"
    bills = [bill for thread, bill in paid if thread == "cut"]
    assert set(bills) <= {"gas", "extra"}
    assert len(bills) + unknown.count("cut") >= 2, "what is not known is listed"
    assert cut[:3] == ["rent gas", "", "paid rent"]
    assert str(cut).count("outcome_unknown") == unknown.count("cut") == len(unknown)


async def test_forks_are_whole_whenever_their_maker_is_killed(nest: Nest, tmp_path: Path) -> None:
    killed = 0
    for number in count(1):
        folder = tmp_path / str(number)
        (folder / "logs").mkdir(parents=True)
        place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
        await begin(place)
        scene = Scene(place=place, death=Death(at=number, side="any"))
        ending = await nest.raise_child(play, msgspec.to_builtins(scene))
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), ending
            await judged(place)
            break
        killed += 1
        await judged_after_a_kill(place)
        ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place)))
        assert (ending.signal, ending.code) == (0, 0), f"after the kill at {number}: {ending}"
        await judged(place)
    assert killed >= 20, killed
