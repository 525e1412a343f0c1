"""Storms: agents, sub-agents and budgets in several processes on one store, with kills, pauses, and a store that hangs.

The judge is tested first: it finds each violation that is planted into what a quiet run left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import msgspec
import pytest
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.stores import Fresh, Row
from tests.crash.storm_driver import REAL, STORES, Shape, at_rest, run_storm
from tests.crash.storm_judge import World, judge
from tests.crash.storm_scene import Ack, Lengths, message_of, runtime_at, team_at
from tests.crash.tools import append_line
from tests.kit.waiting import PATIENCE

from clicket import State
from clicket.agents import AgentState
from clicket.engine.spend.accounts import Hold

SHORT = Shape(processes=2, lives=2, limit=1.0, faults=3, threads=2, messages=2)
replace = msgspec.structs.replace
BOSS = ("boss", "a0")


def _record(world: World, tool: str) -> int:
    return next(place for place, record in enumerate(world.records) if record.tool == tool)


def _turn_is_lost(world: World) -> None:
    world.turns[BOSS].pop()


def _turn_failed(world: World) -> None:
    failed = {"state": AgentState.ERROR, "stopped": None, "error": "no answer", "code": "store_unavailable"}
    world.turns[BOSS][0] = replace(world.turns[BOSS][0], **failed)


def _message_has_two_turns(world: World) -> None:
    world.turns[BOSS].append(replace(world.turns[BOSS][0], turn=4))


def _answer_is_another(world: World) -> None:
    world.acks[-1] = replace(world.acks[-1], text="something else")


def _call_is_open(world: World) -> None:
    place = _record(world, "agent:boss")
    world.records[place] = replace(world.records[place], state=State.RUNNING, events=world.records[place].events[:-1])


def _call_of_tool_is_open(world: World) -> None:
    place = _record(world, "pay")
    world.records[place] = replace(world.records[place], state=State.RUNNING, events=world.records[place].events[:-1])


def _body_ran_twice(world: World) -> None:
    world.effects.append(next(effect for effect in world.effects if effect.tool == "pay"))


def _body_did_not_run(world: World) -> None:
    world.effects.remove(next(effect for effect in world.effects if effect.tool == "put"))


def _agent_has_no_turn(world: World) -> None:
    world.turns[next(place for place in world.turns if place[0] == "helper")].clear()


def _result_is_lost(world: World) -> None:
    document = world.turns[BOSS][0]
    changed = [replace(message, content="") if message.role == "tool" else message for message in document.messages]
    world.turns[BOSS][0] = replace(document, messages=tuple(changed))


def _counted_twice(world: World) -> None:
    world.accounts[0].tokens += 3


def _still_reserved(world: World) -> None:
    world.accounts[0].holds["1:x"] = Hold(nano=1, tokens=1, at=1.0)


def _cost_is_lost(world: World) -> None:
    for page in world.pages:
        for id in [id for id, entry in page.entries.items() if entry.kind == "tool"][:1]:
            del page.entries[id]


def _reply_is_lost(world: World) -> None:
    for page in world.pages:
        for id in [id for id, entry in page.entries.items() if entry.kind == "model"][:1]:
            del page.entries[id]


PLANTED: list[tuple[Callable[[World], None], str]] = [
    (_turn_is_lost, "lost"),
    (_turn_failed, "lost"),
    (_message_has_two_turns, "repeated"),
    (_answer_is_another, "wrong"),
    (_call_is_open, "lost"),
    (_call_of_tool_is_open, "wrong"),
    (_body_ran_twice, "repeated"),
    (_body_did_not_run, "wrong"),
    (_agent_has_no_turn, "lost"),
    (_result_is_lost, "wrong"),
    (_counted_twice, "unequal"),
    (_still_reserved, "unequal"),
    (_cost_is_lost, "unequal"),
    (_reply_is_lost, "unequal"),
]


async def quiet(folder: Path) -> World:
    """What three turns leave that nothing disturbs."""
    place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder))
    rt = runtime_at(place, Lengths())
    boss, _ = team_at(rt, place)
    async with rt:
        for number in range(3):
            message = message_of("a0", number)
            result = await boss.run(message, thread="a0", id=message)
            ack = Ack(did="result", thread="a0", id=message, turn=result.turn, text=result.text)
            append_line(folder / "acks", msgspec.to_builtins(ack))
    return await at_rest(place, Shape(threads=1), ("a",))


def test_the_judge_finds_what_is_planted(tmp_path: Path) -> None:
    sound = asyncio.run(quiet(tmp_path))
    assert not judge(sound)
    for plant, kind in PLANTED:
        world = deepcopy(sound)
        plant(world)
        assert kind in {finding.kind for finding in judge(world)}, plant.__name__


@pytest.mark.parametrize("served", STORES, indirect=True)
async def test_a_short_storm(served: tuple[Row, Fresh], nests: list[Nest], tmp_path: Path) -> None:
    row, fresh = served
    storm = await run_storm(row, fresh, tmp_path, 3, nests, SHORT)
    assert not storm.findings, str(storm)


@pytest.mark.slow
@pytest.mark.timeout(4 * PATIENCE)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("served", STORES, indirect=True)
async def test_a_long_storm(served: tuple[Row, Fresh], nests: list[Nest], tmp_path: Path, seed: int) -> None:
    row, fresh = served
    shape = Shape() if seed else Shape(lives=3, limit=6.0, faults=5, lengths=REAL)
    storm = await run_storm(row, fresh, tmp_path, seed, nests, shape)
    assert not storm.findings, str(storm)
