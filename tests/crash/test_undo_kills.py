"""A process that undoes a turn is killed at every instant at which something happened: in the body of a call, in that of an undo, at each
write. Another one goes on: no payment is made twice, none is refunded twice or without having been made, what is not known is listed
as unknown, and once a person has settled that everything is refunded."""

from __future__ import annotations

import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.agent_scene import Death, effects
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.stores import Fresh, Row
from tests.crash.undo_scene import THREAD, Scene, agent_at, play, run, runtime_at

from clicket import Record, Runtime
from clicket.model import effect_of
from clicket.model.undo import UndoReport


async def payments(rt: Runtime) -> list[Record]:
    return (await rt.history(tool="pay", limit=100)).items


def paid_and_refunded(place: Place) -> tuple[Counter[str], Counter[str]]:
    """By the id of the payment."""
    found = effects(Path(place.folder))
    paid = Counter(each.call for each in found if each.tool == "pay")
    return paid, Counter(each.side for each in found if each.tool == "undo:pay")


async def judged(scene: Scene) -> None:
    place = scene.place
    async with runtime_at(place) as rt:
        agent = agent_at(rt, scene)
        await run(rt, agent, scene)
        paid, refunded = paid_and_refunded(place)
        assert set(paid.values()) <= {1}, f"paid twice: {paid}"
        assert set(refunded.values()) <= {1}, f"refunded twice: {refunded}"
        assert set(refunded) <= set(paid), "what was not paid was refunded"
        report = await rt.undo(thread=THREAD, turn=1)
        await sound(rt, report, paid, refunded)
        for _ in range(6):
            if report.is_complete:
                break
            assert report.unknown, "nothing else stops an undo here"
            await settled(rt, report, place)
            report = await rt.undo(thread=THREAD, turn=1)
        paid, refunded = paid_and_refunded(place)
        assert report.is_complete
        assert refunded == paid, "everything that was paid is refunded, once"
        # Those that a kill left in doubt are in no list if a person says that they did not happen.
        assert {each.id for each in report.undone} == set(paid)
        read = (await agent.run("next", thread=THREAD)).messages
        told = [message.content for message in read if message.content.startswith("[These calls were undone")]
        lines = [line for text in told for line in text.splitlines() if line.startswith("- pay")]
        assert len(lines) == len(set(lines)) == len(paid), lines


async def sound(rt: Runtime, report: UndoReport, paid: Counter[str], refunded: Counter[str]) -> None:
    """Each payment is in the list that its records call for."""
    by_id = {call.id: call for call in await payments(rt)}
    listed = {each.id: name for name in UndoReport.__struct_fields__ for each in getattr(report, name)}
    for id, call in by_id.items():
        if effect_of(call) == "none":
            assert id not in listed
            assert id not in paid
        elif effect_of(call) == "unknown":
            assert listed[id] in ("unknown", "waiting"), "it waits for a later one, or for a person"
        else:
            assert listed[id] in ("undone", "unknown", "waiting")
            assert (listed[id] != "undone") or refunded[id] == 1
            assert (listed[id] != "waiting") or refunded[id] == 0


async def settled(rt: Runtime, report: UndoReport, place: Place) -> None:
    """A person looks at the bank, and says what happened."""
    paid, refunded = paid_and_refunded(place)
    for each in report.unknown:
        if each.undo:
            await rt.resolve(each.undo, thread=each.thread, happened=refunded[each.id] == 1, by="ann")
        else:
            await rt.resolve(each.id, thread=each.thread, happened=paid[each.id] == 1, by="ann")


async def everywhere(served: tuple[Row, Fresh], nest: Nest, folder: Path, why: Any, one_of: int) -> int:
    """Kill at every n-th instant until the process ends before it. Returns how often it was killed."""
    for killed, number in enumerate(count(1, one_of)):
        logs = folder / str(number)
        logs.mkdir()
        place = Place(store=served[1](logs), folder=str(logs))
        scene = Scene(place=place, why=why, death=Death(at=number, side="any"))
        ending = await nest.raise_child(play, msgspec.to_builtins(scene))
        assert not ending.hung
        try:
            await judged(scene)
        except Exception as error:
            raise AssertionError(f"killed at {number}") from error
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), ending
            return killed
    raise AssertionError


@pytest.mark.parametrize("why", ["failed", "demand"])
@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_killed_at_every_instant(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path, why: str) -> None:
    assert await everywhere(served, nest, tmp_path, why, 1) >= 20


@pytest.mark.parametrize("why", ["failed", "demand"])
@pytest.mark.parametrize("served", ["redis", "postgres"], indirect=True)
async def test_killed_here_and_there(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path, why: str) -> None:
    assert await everywhere(served, nest, tmp_path, why, 3) >= 7
