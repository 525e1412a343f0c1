"""A turn of ten steps is killed at any store write, and the next process finishes it: no call repeated, no result
lost."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Iterable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import msgspec
import pytest
from tests.crash.agent_judge import Seen, judge, replies_on_record, seen
from tests.crash.agent_scene import (
    LAST,
    MESSAGE,
    STEPS,
    Death,
    Life,
    agent_of,
    asked,
    live,
    runtime_of,
    thread_of,
)
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.stores import Fresh, Row
from tests.kit.waiting import PATIENCE

from clicket import Runtime

WAYS = ("run", "open")
_MOST = 200
"""More writes than any turn has."""


async def resumed(place: Place, way: str, *, nonce: str = "") -> Seen:
    """A new runtime resumes the turn, by sending the message again or when it opens, and finishes it."""
    folder = Path(place.folder)
    before = len(asked(folder))
    thread, result = thread_of(place), None
    rt = runtime_of(place)
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        if way == "run":  # a runtime without the agent resumes no turn
            await stack.enter_async_context(rt)
            known = await replies_on_record(rt, place)
            agent = agent_of(rt, place, nonce=nonce)
        else:
            async with Runtime([], settings=place.settings()) as reader:
                known = await replies_on_record(reader, place)
            agent = agent_of(rt, place, nonce=nonce)
            await stack.enter_async_context(rt)
            result = await agent.wait(thread)
        if result is None and not (await agent.look(thread)).turns:
            result = await agent.run(MESSAGE, thread=thread)
        await rt.recover()  # the turn may be over without its call's last event
        if result is None:
            result = await agent.wait(thread, 1)
        found = await seen(rt, agent, place)
    assert result is not None
    assert (result.text, result.steps, result.stopped) == (found.document.text, STEPS, "finished")
    assert tuple(result.messages) == found.document.messages
    assert asked(folder)[before:] == list(range(known + 1, STEPS + 1)), "the model was called again for a stored reply"
    return found


async def undisturbed(place: Place) -> Seen:
    return await resumed(place, "run")


async def die(nest: Nest, life: Life) -> bool:
    """Was it killed? The turn may end before the kill."""
    ending = await nest.raise_child(live, msgspec.to_builtins(life))
    assert not ending.hung
    assert ending.signal == signal.SIGKILL or ending == type(ending)(signal=0), f"{life.death}: {ending}"
    return ending.signal == signal.SIGKILL


def at(store: str, folder: Path) -> Place:
    """A place with its own thread, in a store that it may share."""
    folder.mkdir()
    return Place(store=store, folder=str(folder))


async def killed_at(
    nest: Nest, place: Place, deaths: Iterable[Death], whole: Seen, way: str, *, fickle: bool = False
) -> int:
    """Kill one process after the other, then finish the turn; returns how many were killed."""
    killed = 0
    for death in deaths:
        killed += await die(nest, Life(place=place, death=death, way=way, fickle=fickle))
    found = await resumed(place, way, nonce=" (the last)" if fickle else "")
    judge(found, whole, lives=killed + 1, fickle=fickle)
    return killed


async def killed_everywhere(
    nest: Nest, fresh: Fresh, folder: Path, deaths: Iterable[Death], *, fickle: bool = False, first_way: int = 0
) -> None:
    """One kill at each of the chosen instants, until a turn ends before it, and around the last writes; each time in a
    new thread."""
    store = fresh(folder)
    whole = await undisturbed(at(store, folder / "whole"))
    judge(whole, whole, lives=1)
    numbers, wrong = count(), list[str]()

    async def was_killed(death: Death) -> bool:
        number = next(numbers)
        way = WAYS[(number + first_way) % 2]
        place = at(store, folder / str(number))
        try:
            return await killed_at(nest, place, [death], whole, way, fickle=fickle) == 1
        except Exception as error:
            wrong.append(f"{death}, taken up by {way}: {error!r:.500}")
            return number < _MOST

    for death in deaths:
        if not await was_killed(death):
            break
    assert death.at > STEPS, "each step has writes"
    for death in LAST:
        assert await was_killed(death), f"each turn has this write: {death}"
    assert not wrong, "\n".join(wrong)


def every(step: int = 1) -> Iterable[Death]:
    return (Death(at=at, side="any") for at in count(1, step))


@pytest.mark.first
@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_killed_at_every_event(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    await killed_everywhere(nest, served[1], tmp_path, every())


@pytest.mark.parametrize("served", ["redis", "postgres"], indirect=True)
async def test_killed_here_and_there(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    await killed_everywhere(nest, served[1], tmp_path, every(10))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first_way", [0, 1])
@pytest.mark.parametrize("served", ["sqlite", "sqlite-power", "redis", "postgres"], indirect=True)
async def test_killed_at_every_event_and_resumed_in_each_way(
    served: tuple[Row, Fresh], nest: Nest, tmp_path: Path, first_way: int
) -> None:
    await killed_everywhere(nest, served[1], tmp_path, every(), first_way=first_way)


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_a_model_that_changes_its_mind(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    """If the process dies before a reply is stored, the model is called again and may reply differently. So no call of
    the first reply may have started."""

    early = [Death(at=at, side="after") for at in range(1, 18)]
    await killed_everywhere(nest, served[1], tmp_path, early, fickle=True)


@pytest.mark.parametrize("served", ["sqlite", "postgres"], indirect=True)
async def test_killed_again_and_again(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    """More kills than `max_claims`: a turn that makes progress is not given up."""
    store = served[1](tmp_path)
    whole = await undisturbed(at(store, tmp_path / "whole"))
    place = at(store, tmp_path / "killed")
    deaths = [Death(at=9 + number % 2, side=("before", "after")[number % 2]) for number in range(12)]
    assert await killed_at(nest, place, deaths, whole, "run") > place.settings().limits.max_claims


async def closed_everywhere(nest: Nest, fresh: Fresh, folder: Path, one_of: int) -> None:
    """A runtime that closes hands the turn back: interrupted calls have an unknown outcome, everything else
    continues."""
    store = fresh(folder)
    whole = await undisturbed(at(store, folder / "whole"))
    wrong, handed_back = list[str](), 0
    for number in count(1, one_of):
        place = at(store, folder / str(number))
        try:
            assert not await die(nest, Life(place=place, death=Death(at=number, side="close")))
            found = await resumed(place, WAYS[handed_back % 2])
            judge(found, whole, lives=2)
        except Exception as error:
            wrong.append(f"{number}: {error!r:.700}")
            if number > _MOST:
                break
            continue
        if len(found.turn.attempts) == 1:  # it had ended before
            break
        handed_back += 1
    assert not wrong, "\n".join(wrong)
    assert handed_back * one_of >= STEPS, "each step has writes"


@pytest.mark.parametrize("served", ["sqlite", "postgres"], indirect=True)
async def test_closed_here_and_there(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    await closed_everywhere(nest, served[1], tmp_path, 4 if served[0].name == "sqlite" else 11)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_closed_at_every_event(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    await closed_everywhere(nest, served[1], tmp_path, 1)


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_killed_at_any_instant(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    store = served[1](tmp_path)
    whole = await undisturbed(at(store, tmp_path / "whole"))
    chance = random.Random(7)
    for number in range(8):
        place = at(store, tmp_path / str(number))
        instant = (chance.uniform(0.0, 0.1), int(signal.SIGKILL))
        ending = await nest.raise_child(live, msgspec.to_builtins(Life(place=place)), signals=[instant], ready=True)
        assert not ending.hung
        assert ending.code == 0
        judge(await resumed(place, WAYS[number % 2]), whole, lives=2)
