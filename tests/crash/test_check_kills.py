"""Checks are killed with their process at every instant of a turn: no decision that was seen is made again, and no person is asked
twice."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from itertools import count
from pathlib import Path

import msgspec
from tests.crash.agent_scene import Death
from tests.crash.checks_scene import ASKED, THREAD, agent_at, play, runtime_at
from tests.crash.middleware_scene import Scene
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.test_middleware_kills import lines


async def judged(place: Place) -> None:
    folder = Path(place.folder)
    asked = defaultdict[int, set[str]](set)
    for step, messages in lines(folder / "asked"):
        asked[step].add(json.dumps(messages))
    assert {len(requests) for requests in asked.values()} == {1}, "the model saw two requests for one step"
    assert sorted(asked) == [0, 1, 2]
    bills = defaultdict[str, set[str]](set)
    for call, bill in lines(folder / "effects"):
        bills[call].add(bill)
    assert [len(each) for each in bills.values()] == [1, 1], "a call ran with other arguments"
    questions = defaultdict[str, set[str]](set)
    for id, tool, reason, arguments in lines(folder / "decided"):
        questions[id].add(json.dumps([tool, reason, arguments]))
    assert [len(each) for each in questions.values()] == [1, 1, 1], "a person was asked another question"
    (used,) = set(lines(folder / "used"))
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        (turn,) = (await agent.history(THREAD)).turns
        assert (turn.text, turn.stopped, turn.message) == (used, "finished", "Pay.")
        shown = [json.loads(each) for (each,) in questions.values()]
        assert sorted(tool for tool, _, _ in shown) == sorted(ASKED)
        texts = [arguments["text"] for tool, _, arguments in shown if tool.startswith("check:")]
        assert turn.messages[0].content in texts
        assert any(used.startswith(f"{text} ") for text in texts), "the answer is the one that the person read"
        first = json.loads(next(iter(asked[0])))
        assert [content for role, content in first if role == "user"] == [turn.messages[0].content]
        seen = [message.content for message in turn.messages if message.role == "tool"]
        last = json.loads(next(iter(asked[2])))
        assert [content for role, content in last if role == "tool"] == seen
        events = [event async for event in agent.events(THREAD) if event.type == "decision"]
        asks = [event.data["on"] for event in events if event.data["value"]["do"] == "ask"]
        assert sorted(asks) == ["input", "output", "tool_call"]


async def test_what_was_seen_of_a_check_holds_after_a_kill(nest: Nest, tmp_path: Path) -> None:
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
