"""A script with two messages is killed at store writes of either turn and between the turns, and started again until it ends by itself:
it always can, no turn is lost, and with ids none is repeated."""

from __future__ import annotations

import random
import signal
from collections import Counter
from itertools import count, cycle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.agent_scene import Death, effects
from tests.crash.agent_script import FIRST, OTHER, SECOND, THREAD, Play, Used, agent_at, play, runtime_at
from tests.crash.nest import Nest
from tests.crash.settle import Place, read_lines
from tests.crash.stores import Fresh, Row
from tests.kit.waiting import eventually

from clicket import Runtime
from clicket.model.ids import alias_of

WAYS = ("run", "stream", "begin")
_MOST = 20
"""Failures after which the rest is not tried."""


async def started(nest: Nest, scene: Play, **signals: Any) -> bool:
    """Was the script killed? Else it has ended by itself, without an error."""
    ending = await nest.raise_child(play, msgspec.to_builtins(scene), **signals)
    assert not ending.hung
    assert ending.signal == signal.SIGKILL or (ending.signal, ending.code) == (0, 0), f"{scene}: {ending}"
    return ending.signal == signal.SIGKILL


async def found(place: Place) -> tuple[list[tuple[str, str]], Counter[str]]:
    """The turns of the thread, all ended, and how often a tool ran, by turn and tool."""
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        await rt.recover()
        turns = [(turn.messages[0].content, turn.text) for turn in (await agent.history(THREAD, limit=1_000)).turns]
        # Each call ends, and each turn's own: the recovery may have begun to end the last one just now.
        await eventually(lambda: _none_active(rt), timeout=60)
    ran = Counter(f"{alias_of(one.call).rsplit('.', 2)[0]} {one.tool}" for one in effects(Path(place.folder)))
    assert set(ran.values()) <= {1}, f"a call ran twice: {ran}"
    return turns, ran


async def _none_active(rt: Runtime) -> bool:
    return not (await rt.history(active=True)).items


async def judged(place: Place, scene: Play) -> None:
    turns, ran = await found(place)
    used = read_lines(Path(place.folder, "used"), Used)
    last = {each.message: each for each in used[-2:]}
    assert set(last) == {FIRST, scene.second}, "both answers of the last start were used"
    for each in used:
        assert turns[each.turn - 1] == (each.message, each.text)
        assert each.text == f"done: {each.message}" or each.text.startswith("outcome_unknown: ")
    if scene.named:
        expected = [FIRST, SECOND, OTHER] if scene.second == OTHER and len(turns) == 3 else [FIRST, scene.second]
        assert [message for message, _ in turns] == expected, "one turn for one id"
    assert len(ran) <= len(turns)


def at(store: str, folder: Path) -> Place:
    folder.mkdir()
    return Place(store=store, folder=str(folder))


async def killed_at(nest: Nest, fresh: Fresh, folder: Path, one_of: int) -> None:
    """Killed once at every `one_of`-th write, before or after it is durable, then started again, in every way in turn."""
    sends = [
        (way, named, second, early)
        for named in (True, False)
        for second in (SECOND, OTHER)
        for way in WAYS
        for early in (0, 1)
    ]
    kinds, wrong, killed = cycle(sends), [], 0
    for number in count(2, one_of):
        before = killed + len(wrong)
        for side in ("before", "after"):
            way, named, second, early = next(kinds)
            (folder / f"{number}{side}").mkdir()
            place = at(fresh(folder / f"{number}{side}"), folder / f"{number}{side}" / "logs")
            first = Play(place=place, death=Death(at=number, side=side), way=way, named=named)
            then = Play(place=place, way=way, named=named, second=second, early=bool(early))
            try:
                was_killed = await started(nest, first)
                assert not await started(nest, then)
                await judged(place, then)
                killed += was_killed
            except Exception as error:
                wrong.append(f"{side} {number}, {way}, named {named}, {second}, early {early}: {error!r:.600}")
        if killed + len(wrong) == before or len(wrong) > _MOST:  # the script had ended
            break
    assert not wrong, "\n".join(wrong)
    assert killed


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_a_script_that_is_killed_here_and_there(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    await killed_at(nest, served[1], tmp_path, 5)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_a_script_that_is_killed_at_every_write(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    for number in range(4):  # so that each way meets each write
        (tmp_path / str(number)).mkdir()
        await killed_at(nest, served[1], tmp_path / str(number), 1 if number == 0 else 5)


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_a_script_that_is_killed_at_any_instant(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    """Each place several times: the script is started until it ends by itself, and a start never fails."""
    chance = random.Random(11)
    for number in range(6):
        (tmp_path / str(number)).mkdir()
        place = at(served[1](tmp_path / str(number)), tmp_path / str(number) / "logs")
        scene = Play(place=place, way=WAYS[number % 3], early=number % 2 == 0)
        for _ in range(2):
            await started(nest, scene, signals=[(chance.uniform(0.0, 0.06), int(signal.SIGKILL))], ready=True)
        assert not await started(nest, scene)
        await judged(place, scene)


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_an_agent_with_other_tools_takes_the_script_up(
    served: tuple[Row, Fresh], nest: Nest, tmp_path: Path
) -> None:
    """The interrupted turn never uses the tool that only the later agent has."""
    wrong = []
    for number in range(2, 24, 3):
        (tmp_path / str(number)).mkdir()
        place = at(served[1](tmp_path / str(number)), tmp_path / str(number) / "logs")
        await started(nest, Play(place=place, death=Death(at=number, side="after")))
        async with runtime_at(place) as rt:
            agent = agent_at(rt, place)
            view = await agent.look(THREAD)
            begun = await agent.recorded(THREAD, view.turns + 1)
        assert not await started(nest, Play(place=place, tool="cancel", early=number % 2 == 0))
        turns, ran = await found(place)
        if begun and ran[f"react.{view.turns + 1} cancel"]:
            wrong.append(f"{number}: turn {view.turns + 1} used the tool of another agent: {ran}")
        assert [message for message, _ in turns] == [FIRST, SECOND]
    assert not wrong, "\n".join(wrong)
