"""Processes die at each commit of a firing and of a call that waits for its time: nothing is fired twice, nothing is skipped in silence."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.crash.nest import Nest
from tests.crash.schedule_scene import NAME, Scene, act, backdate, effects, make_tool, stored_schedule
from tests.crash.settle import Place, read_lines
from tests.kit.waiting import eventually

from clicket import Runtime
from clicket.runtime.schedules.schedule import call_id

POINTS = ("put_document", "append", "delete_document", "claim")


async def settle_schedule(place: Place, since: float) -> None:
    """The last process carries on. Each due time has one call, which ran once at most, and a line in the log."""
    async with Runtime([make_tool(Path(place.folder))], settings=place.settings()) as rt:

        async def all_decided() -> bool:
            stored = await stored_schedule(rt)
            caught_up = stored.schedule.last_due >= time.time() // 60 * 60
            active = (await rt.history(thread=f"schedule:{NAME}", active=True)).items
            return caught_up and not stored.firing and not stored.schedule.waiting and not active

        await eventually(all_decided)
        schedule = (await stored_schedule(rt)).schedule
        minutes = round((schedule.last_due - since) / 60)
        expected = [call_id(NAME, since + 60 * n) for n in range(1, minutes + 1)]
        fired = [entry.call for entry in schedule.log if entry.outcome == "fired"]
        assert sorted(fired) == sorted(expected)
        made = (await rt.history(thread=f"schedule:{NAME}", limit=1_000)).items
        assert sorted(record.id for record in made) == sorted(expected)
        ran = Counter(effects(place))
        assert set(ran) <= set(expected)
        assert all(count == 1 for count in ran.values())
        unknown = {record.id for record in made if record.error is not None}
        assert all(record.error.code == "outcome_unknown" for record in made if record.error is not None)
        assert {record.id for record in made} - unknown <= set(ran)


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
@pytest.mark.parametrize("overlap", ["allow", "queue"])
async def test_kills_at_each_commit_of_a_firing(place: Place, nest: Nest, overlap: str) -> None:
    await killed_while_firing(place, nest, overlap)


@pytest.mark.slow
@pytest.mark.parametrize("served", ["redis", "postgres"], indirect=True)
async def test_kills_at_each_commit_of_a_firing_over_servers(place: Place, nest: Nest) -> None:
    await killed_while_firing(place, nest, "queue")


async def killed_while_firing(place: Place, nest: Nest, overlap: str) -> None:
    since = await backdate(place, overlap=overlap)
    for nth, point, side in [
        (1, "put_document", "after"),  # what is the worker's own entry
        (2, "put_document", "before"), (2, "put_document", "after"), (1, "append", "before"), (1, "append", "after"),
        (2, "append", "after"), (3, "put_document", "before"), (3, "put_document", "after"), (4, "append", "after"),
    ]:  # fmt: skip
        scene = Scene(place=place, point=point, side=side, nth=nth, seconds=0.3)
        ending = await nest.raise_child(act, msgspec.to_builtins(scene))
        assert ending.signal == signal.SIGKILL
    assert len(read_lines(Path(place.folder, "kills"), str)) >= 5  # the others found that all was done
    await settle_schedule(place, since)


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_several_processes_and_one_is_killed(place: Place, nest: Nest) -> None:
    since = await backdate(place, overlap="allow")
    others = [Runtime([make_tool(Path(place.folder))], settings=place.settings()) for _ in range(3)]
    scene = Scene(place=place, point="put_document", side="after", nth=3, seconds=0.3)
    dying = asyncio.ensure_future(nest.raise_child(act, msgspec.to_builtins(scene)))
    for each in others:
        await each.open()
    await dying
    for each in others:
        await each.close()
    await settle_schedule(place, since)


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_kills_at_each_commit_of_a_call_that_waits(place: Place, nest: Nest) -> None:
    number = 0
    for point in POINTS:
        for side in ("before", "after"):
            for nth in (1, 3):
                scene = Scene(place=place, point=point, side=side, nth=nth, later=(f"c{number}",), seconds=0.3)
                number += 1
                ending = await nest.raise_child(act, msgspec.to_builtins(scene))
                assert ending.signal == signal.SIGKILL
    assert len(set(read_lines(Path(place.folder, "kills"), str))) > 3
    accepted = read_lines(Path(place.folder, "accepted"), str)
    assert len(accepted) > 5
    async with Runtime([make_tool(Path(place.folder))], settings=place.settings()) as rt:

        async def all_ended() -> bool:
            return not (await rt.history(active=True)).items

        await eventually(all_ended)
        records = {record.id: record for record in (await rt.history(limit=1_000)).items}
        assert set(accepted) <= set(records)
        ran = Counter(effects(place))
        assert all(count == 1 for count in ran.values())
        for record in records.values():
            assert record.error is None or record.error.code == "outcome_unknown"
            assert record.started_at is not None
            assert record.not_before is not None
            assert record.started_at >= record.not_before
            assert record.error is not None or ran[record.id] == 1
