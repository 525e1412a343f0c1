"""Kills at every commit of a grant, of its uses, of a decision and of an answer: nothing is decided twice, nothing that a person decided
is lost, and no grant lets more calls run than it says."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.crash.approval_scene import CALLS, POLICY, TWO_PEOPLE, USES, Kill, act, burst, go_on, ran, tools_of
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.stores import Fresh, Row
from tests.kit.waiting import PATIENCE

from clicket import Record, Runtime, State

MOST = 40
"""More commits than any story has."""
on_files = pytest.mark.parametrize("served", ["sqlite"], indirect=True)
"""Appends are killed on every store in `test_kills.py`; here one store is enough."""
on_every_store = pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)


async def killed_everywhere(
    nest: Nest,
    served: tuple[Row, Fresh],
    folder: Path,
    story: str,
    what: str,
    sides: Sequence[str] = ("before", "after"),
) -> list[Place]:
    """The stores that processes left which died before and after each commit of one kind."""
    row, fresh = served
    places = []
    for side in sides:
        for nth in range(1, MOST):
            own = folder / f"{what}-{side}-{nth}"
            own.mkdir()
            place = Place(store=fresh(own), folder=str(own), durability=row.durability)
            kill = Kill(place=place, story=story, what=what, side=side, nth=nth)
            ending = await nest.raise_child(act, msgspec.to_builtins(kill))
            places.append(place)
            if ending.signal != signal.SIGKILL:
                assert ending.code == 0
                break
        else:
            pytest.fail("the story does not end")
    return places


def reopened(place: Place, story: str = "grant") -> Runtime:
    policy = TWO_PEOPLE if story == "two people" else POLICY
    return Runtime(tools_of(place), policy=policy, settings=place.settings())


def by_grant(records: list[Record]) -> list[Record]:
    """The calls that a grant approved, without the one with whose approval it was given."""
    return [record for record in records if record.id != "one" and record.approval and record.approval["grant"]]


@on_every_store
async def test_a_grant_is_neither_lost_nor_used_too_often(
    nest: Nest, served: tuple[Row, Fresh], tmp_path: Path
) -> None:
    """A store has not heard of a commit before it: kills there are made on one store, and on the others in the slow form."""
    sides = ("before", "after") if served[0].name == "sqlite" else ("after",)
    await check_grants(nest, served, tmp_path, "put_document", sides)


@pytest.mark.slow
@pytest.mark.parametrize("served", ["redis", "postgres"], indirect=True)
async def test_a_grant_that_other_stores_have_not_heard_of(
    nest: Nest, served: tuple[Row, Fresh], tmp_path: Path
) -> None:
    await check_grants(nest, served, tmp_path, "put_document", ("before",))


@on_files
async def test_a_grant_stays_what_it_is_whatever_append_is_lost(
    nest: Nest, served: tuple[Row, Fresh], tmp_path: Path
) -> None:
    await check_grants(nest, served, tmp_path, "append")


async def check_grants(
    nest: Nest, served: tuple[Row, Fresh], tmp_path: Path, what: str, sides: Sequence[str] = ("before", "after")
) -> None:
    places = await killed_everywhere(nest, served, tmp_path, "grant", what, sides)
    assert len(places) > (4 if what == "put_document" else 7) * len(sides)
    for place in places:
        async with reopened(place) as rt:
            left = (await rt.history(limit=100)).items
            first = next((record for record in left if record.id == "one"), None)
            decided = first is not None and first.approval is not None and first.approval["approved"] is True
            grants = await rt.grants.list()
            if decided:
                assert first is not None
                assert first.approval is not None
                assert [grant.id for grant in grants] == [first.approval["grant"]], "a grant that was given is there"
            else:
                assert grants == [], "and one that was not given is not"
            await go_on(rt, "grant")
            [grant] = await rt.grants.list()
            records = (await rt.history(limit=100)).items
            used = by_grant(records)
            waits = [record.id for record in records if record.waiting_for == "approval"]
        assert {record.approval["grant"] for record in used if record.approval} <= {grant.id}
        assert len(used) <= grant.used <= USES
        assert grant.used - len(used) <= 1, "one kill wastes at most one use"
        assert len(used) + len(waits) == len(CALLS)
        assert max(Counter(ran(place)).values()) == 1
        assert set(ran(place)).isdisjoint(waits)


@on_files
async def test_an_answer_is_the_result_once_it_is_given(nest: Nest, served: tuple[Row, Fresh], tmp_path: Path) -> None:
    for place in await killed_everywhere(nest, served, tmp_path, "answer", "append"):
        async with reopened(place) as rt:
            left = (await rt.history()).items
            if left and left[0].waiting_for is None:  # the answer is on record: no person is needed any more
                await asyncio.wait_for((await rt.handle("one")).result(), PATIENCE)
            await go_on(rt, "answer")
            record = await rt.get("one")
        assert (record.state, record.output) == (State.COMPLETED, {"said": "no need to pay"})
        assert record.metadata["answered_by"] == "Ada"
        assert [event.type for event in record.events].count("approval_given") == 1
        assert ran(place) == [], "the tool did not run"


@on_files
async def test_two_people_approve_whatever_process_dies_between(
    nest: Nest, served: tuple[Row, Fresh], tmp_path: Path
) -> None:
    for place in await killed_everywhere(nest, served, tmp_path, "two people", "append"):
        async with reopened(place, "two people") as rt:
            left = (await rt.history()).items
            names = [each["by"] for record in left if record.approval for each in record.approval["approvals"]]
            assert names in ([], ["Ada"], ["Ada", "Bob"])
            assert len(names) == 2 or not ran(place), "it does not run before both have approved it"
            await go_on(rt, "two people")
            record = await rt.get("one")
        assert record.approval is not None
        assert [each["by"] for each in record.approval["approvals"]] == ["Ada", "Bob"]
        assert [event.type for event in record.events].count("approval_given") == 2
        assert len(ran(place)) <= 1


@on_every_store
async def test_several_processes_never_use_a_grant_more_often_than_it_says(nests: list[Nest], place: Place) -> None:
    async with reopened(place) as rt:
        await rt.submit("pay", {"id": "one"}, id="one")
        await rt.approve("one", by="Ada", grant={"uses": 7})
    children = [
        nest.raise_child(burst, {"place": msgspec.to_builtins(place), "name": f"p{number}", "calls": 6})
        for number, nest in enumerate(nests[:3])
    ]
    assert all(ending.code == 0 and ending.signal == 0 for ending in await asyncio.gather(*children))
    async with reopened(place) as rt:
        [grant] = await rt.grants.list()
        records = (await rt.history(limit=100)).items
    assert (grant.used, grant.state) == (7, "used_up")
    assert len(by_grant(records)) == 7
    assert sum(record.waiting_for == "approval" for record in records) == 3 * 6 - 7
    assert len([id for id in ran(place) if id != "one"]) == 7
