"""A kill at each commit of a reconcile, of a completion by token, and of a settlement: nothing is done twice, nothing that was
acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.nest import Nest
from tests.crash.outside_scene import CALL, Scene, complete, reconcile, resolve, tools_of
from tests.crash.settle import Place, read_lines
from tests.crash.stores import Fresh, Row
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound

from clicket import Record, Runtime, State
from clicket.errors import Conflict

Served = tuple[Row, Fresh]
_MOST = 30
SQLITE = pytest.mark.parametrize("served", ["sqlite"], indirect=True)
OTHERS = pytest.mark.parametrize("served", ["redis", "postgres"], indirect=True)


async def each_kill(
    nest: Nest, served: Served, tmp_path: Path, target: Callable[[Any], None], prepare: Callable[[Place], Any]
) -> AsyncIterator[Place]:
    """One place after another, each left by a child that was killed at another append; the last one was not killed."""
    row, fresh = served
    for side in ("before", "after"):
        for nth in range(1, _MOST):
            folder = tmp_path / f"{side}{nth}"
            folder.mkdir()
            place = Place(store=fresh(folder), folder=str(folder), durability=row.durability)
            await prepare(place)
            scene = Scene(place=place, nth=nth, side=side)
            ending = await nest.raise_child(target, msgspec.to_builtins(scene))
            yield place
            if not ending.signal:
                assert ending.code == 0
                assert nth > 2, "a commit was never reached"
                break
        else:
            raise AssertionError("it did not end")


def effects(place: Place, name: str) -> list[str]:
    return [line[1] for line in read_lines(Path(place.folder, "effects"), list[str]) if line[0] == name]


async def ended(rt: Runtime, id: str = CALL) -> Record:
    async with asyncio.timeout(PATIENCE):
        while not (await rt.state(id)).is_terminal:
            await asyncio.sleep(0.005)
    return await rt.get(id)


async def in_doubt(place: Place, *, pays_first: bool) -> None:
    """Leave a payment whose outcome is unknown."""
    rt = Runtime(tools_of(Path(place.folder)), settings=place.settings(cancel_grace=0.01))
    async with rt:
        await rt.submit("pay", {"pays_first": pays_first}, id=CALL)
        while await rt.state(CALL) is not State.RUNNING or (pays_first and not effects(place, "pay")):
            await asyncio.sleep(0.002)
        await rt.close(patience=0)


async def reconciled(nest: Nest, served: Served, tmp_path: Path, *, pays_first: bool) -> None:
    async def prepare(place: Place) -> None:
        await in_doubt(place, pays_first=pays_first)

    async for place in each_kill(nest, served, tmp_path, reconcile, prepare):
        async with Runtime(tools_of(Path(place.folder)), settings=place.settings()) as rt:
            record = await ended(rt)
        assert_sound(record)
        assert len(effects(place, "pay")) == 1, "it is paid once, whatever was killed"
        # A second attempt that was killed after its effect is found by the check, too.
        assert (record.state, record.output in ("found", "paid")) == (State.COMPLETED, True)
        if pays_first:
            assert (record.output, record.metadata["reconciled"], len(record.attempts)) == ("found", True, 1)


async def completed(nest: Nest, served: Served, tmp_path: Path) -> None:
    async def prepare(place: Place) -> None: ...

    waits = 0
    async for place in each_kill(nest, served, tmp_path, complete, prepare):
        acknowledged = read_lines(Path(place.folder, "acks"), str)
        async with Runtime(tools_of(Path(place.folder)), settings=place.settings()) as rt:
            if not (await rt.history()).items:
                assert not effects(place, "job"), "nothing runs before it is on record"
                continue
            record = await rt.get(CALL)
            if record.waiting_for == "external":
                waits += 1
                (token,) = effects(place, "job")
                await rt.complete(token, "by the parent")
            record = await ended(rt)
            assert_sound(record)
            assert len(effects(place, "job")) <= 1, "the body is not run again"
            reports = [event for event in record.events if event.type == "reported"]
            assert len(reports) <= 1
            if acknowledged or reports:
                assert record.state is State.COMPLETED
                assert record.output == reports[0].data["output"]
            if acknowledged:
                assert record.output == "by the child"
            if not reports:  # killed before the wait was on record
                assert record.error is not None
                assert record.error.code == "outcome_unknown"
                assert record.external is None or record.external["since"] is None
            else:
                (token,) = effects(place, "job")
                with pytest.raises(Conflict):
                    await rt.complete(token, "again")
    assert waits, "some kill left the wait to this process"


async def resolved(nest: Nest, served: Served, tmp_path: Path) -> None:
    async def prepare(place: Place) -> None:
        async with Runtime(tools_of(Path(place.folder)), settings=place.settings()) as rt:
            await rt.call("wire", id=CALL)

    async for place in each_kill(nest, served, tmp_path, resolve, prepare):
        async with Runtime(tools_of(Path(place.folder)), settings=place.settings()) as rt:
            try:
                record = await rt.resolve(CALL, happened=False, rerun=True, by="ann")
            except Conflict:
                record = await rt.get(CALL)
            assert record.resolution is not None
            again = await ended(rt, record.resolution["rerun_as"])
            # A kill may have left the outcome of the second call unknown, too; it is never run a third time.
            assert again.state is State.COMPLETED or (again.error and again.error.code == "outcome_unknown")
            assert sum(event.type == "resolved" for event in record.events) == 1
            assert len((await rt.history()).items) == 2
            assert len(effects(place, "wire")) <= 1
            assert [call.id for call in (await rt.unknown()).items] == ([] if again.success else [again.id])


@SQLITE
@pytest.mark.parametrize("pays_first", [True, False])
async def test_kills_of_a_reconcile(nest: Nest, served: Served, tmp_path: Path, pays_first: bool) -> None:
    await reconciled(nest, served, tmp_path, pays_first=pays_first)


@SQLITE
async def test_kills_of_a_completion_by_token(nest: Nest, served: Served, tmp_path: Path) -> None:
    await completed(nest, served, tmp_path)


@SQLITE
async def test_kills_of_a_settlement(nest: Nest, served: Served, tmp_path: Path) -> None:
    await resolved(nest, served, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@OTHERS
async def test_kills_on_every_store(nest: Nest, served: Served, tmp_path: Path) -> None:
    for name, run in (("completed", completed), ("resolved", resolved)):
        (tmp_path / name).mkdir()
        await run(nest, served, tmp_path / name)
    for pays_first in (True, False):
        (tmp_path / str(pays_first)).mkdir()
        await reconciled(nest, served, tmp_path / str(pays_first), pays_first=pays_first)
