"""A plan with concurrent steps, and an agent that calls another agent, are killed at any store write: same guarantees
as for one agent."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from itertools import count
from pathlib import Path

import msgspec
import pytest
from tests.crash.agent_judge import REPEATABLE
from tests.crash.agent_scene import LAST, MESSAGE, Death, thread_of, tools_at
from tests.crash.agent_team import KINDS, Life, Team, live, seen, team_of
from tests.crash.nest import Nest
from tests.crash.settle import Place, read_lines
from tests.crash.stores import Fresh, Row
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound

from clicket import Runtime, State
from clicket.agents import AgentState
from clicket.agents.event_stream import position_of
from clicket.model.chat import ChatMessage

_MOST = 200
"""More writes than any turn has."""


async def finished(place: Place, kind: str) -> Team:
    rt = Runtime(tools_at(Path(place.folder)), settings=place.settings())
    agent = team_of(rt, place, kind)
    thread = thread_of(place)
    async with asyncio.timeout(PATIENCE), rt:
        await rt.recover()
        if await agent.wait(thread) is None and not (await agent.look(thread)).turns:
            await agent.run(MESSAGE, thread=thread)
        await agent.wait(thread, 1)
        return await seen(rt, agent, place, kind)


def judge(found: Team, whole: Team, lives: int) -> None:
    for record in (*found.turns, *found.calls.values()):
        assert_sound(record)
        assert record.state.is_terminal, f"{record.id} is {record.state}"
    assert [turn.state for turn in found.turns] == [State.COMPLETED] * len(whole.turns)
    assert sorted(found.calls) == sorted(whole.calls)
    assert [
        (document.state, document.text, document.steps, document.calls, document.plan) for document in found.documents
    ] == [
        (AgentState.FINISHED, document.text, document.steps, document.calls, document.plan)
        for document in whole.documents
    ]
    places = [position_of(event.id) for event in found.events]
    assert places == sorted(set(places))
    assert found.events[-1].type == "final"
    results = Counter(event.data["id"] for event in found.events if event.type == "tool_result")
    assert results == Counter(event.data["id"] for event in whole.events if event.type == "tool_result")
    doubted = [one for one in found.calls.values() if one.error is not None and one.error.code == "outcome_unknown"]
    assert not [one for one in doubted if one.tool in REPEATABLE]
    differ = 0
    for mine, other in zip(found.documents, whole.documents, strict=True):
        for one, same in zip(mine.messages, other.messages, strict=True):
            if one != same:
                assert one.content.startswith("outcome_unknown: ")
                assert (one.role, one.use_id) == (same.role, same.use_id)
                differ += 1
        paired(mine.messages)
    assert differ == len(doubted)
    runs = Counter(one.call for one in found.effects if one.side == "begin")
    for one in found.effects:
        assert runs[one.call] <= (lives if one.tool in REPEATABLE else 1), f"{one.call} ran again"


def paired(messages: tuple[ChatMessage, ...]) -> None:
    waiting: set[str] = set()
    for message in messages:
        if message.role == "tool":
            waiting.remove(message.use_id)
        else:
            assert not waiting
            waiting = {use.id for use in message.uses}
    assert not waiting


async def killed_at(nest: Nest, place: Place, kind: str, death: Death, whole: Team) -> bool:
    """Was a process killed there, before its turn had ended? Then another one finishes the turn."""
    ending = await nest.raise_child(live, msgspec.to_builtins(Life(place=place, kind=kind, death=death)))
    before = len(read_lines(Path(place.folder, "asked"), str))
    assert not ending.hung
    assert ending.code == 0
    found = await finished(place, kind)
    judge(found, whole, 2)
    lost = before - len(whole.asked) + (len(found.asked) - before)
    assert 0 <= lost <= 3, f"{lost} model replies were paid for twice: {found.asked}"
    return ending.signal == signal.SIGKILL


def at(store: str, folder: Path) -> Place:
    folder.mkdir()
    return Place(store=store, folder=str(folder))


async def everywhere(served: tuple[Row, Fresh], nest: Nest, folder: Path, kind: str, one_of: int) -> None:
    """At every n-th distinct instant until a turn ends before it, and around the last writes."""
    store = served[1](folder)
    whole = await finished(at(store, folder / "whole"), kind)
    judge(whole, whole, 1)
    numbers, wrong = count(), list[str]()

    async def was_killed(death: Death) -> bool:
        number = next(numbers)
        try:
            return await killed_at(nest, at(store, folder / f"{kind}{number}"), kind, death, whole)
        except Exception as error:
            wrong.append(f"{death}: {error!r:.700}")
            return number < _MOST

    for nth in count(1, one_of):
        if not await was_killed(Death(at=nth, side="any")):
            break
    assert nth > len(whole.asked), "each model reply is written"
    for death in LAST:
        assert await was_killed(death), f"each turn has this write: {death}"
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_killed_here_and_there(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path, kind: str) -> None:
    await everywhere(served, nest, tmp_path, kind, 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_killed_at_every_event(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path, kind: str) -> None:
    await everywhere(served, nest, tmp_path, kind, 1)


@pytest.mark.parametrize("write", [8, 13, 18, 23])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_stopped_while_all_are_dead(
    served: tuple[Row, Fresh], nest: Nest, tmp_path: Path, kind: str, write: int
) -> None:
    """Stopping the turn stops its child turns and calls: none continues, and each gets an answer."""
    place = at(served[1](tmp_path), tmp_path / "stopped")
    life = Life(place=place, kind=kind, death=Death(at=write, side="after"))
    assert (await nest.raise_child(live, msgspec.to_builtins(life))).signal == signal.SIGKILL
    asked = len(read_lines(Path(place.folder, "asked"), str))
    thread = thread_of(place)
    async with (
        asyncio.timeout(PATIENCE),
        Runtime(tools_at(Path(place.folder)), settings=place.settings()) as rt,
    ):
        agent = team_of(rt, place, kind)
        assert await agent.stop(thread, "enough")
        result = await agent.wait(thread, 1)
        assert result is not None
        assert result.stopped == "cancelled"
        found = await seen(rt, agent, place, kind)
    for record in (*found.turns, *found.calls.values()):
        assert_sound(record)
        assert record.state.is_terminal, f"{record.id} is {record.state}"
    assert found.documents[0].stopped == "cancelled"
    for turn in found.turns:
        over = turn.state is State.COMPLETED and turn.tool == "agent:helper"  # it had ended before
        assert over or turn.state is State.CANCELLED
    assert len(found.documents) == len(found.turns)
    for document in found.documents:
        paired(document.messages)
    assert len(found.asked) == asked, "the model is not called any more"


@pytest.mark.parametrize("write", [8, 13, 18, 23])
@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_a_called_agent_goes_on_at_once_after_a_kill(
    served: tuple[Row, Fresh], nest: Nest, tmp_path: Path, write: int
) -> None:
    """The owner was a process of this host, so its lease says nothing: here it is longer than the test may take. The agents are made
    after the runtime has opened, so the recovery at its opening knows neither their turns nor the tool that calls one."""
    folder = tmp_path / "killed"
    folder.mkdir()
    place = Place(store=served[1](tmp_path), folder=str(folder), lease=600.0)
    life = Life(place=place, kind="sub", death=Death(at=write, side="after"))
    assert (await nest.raise_child(live, msgspec.to_builtins(life))).signal == signal.SIGKILL
    async with (
        asyncio.timeout(PATIENCE),
        Runtime(tools_at(folder), settings=place.settings()) as rt,
    ):
        result = await team_of(rt, place, "sub").run(MESSAGE, thread=thread_of(place))
        assert (result.stopped, result.text, result.turn) == ("finished", "boss is done.", 1)
