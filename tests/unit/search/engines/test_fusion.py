"""Several engines as one: fused orders, and failures that do not affect the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.search.fakes import Engine, Plans, Scores, document, leaping

from clicket.errors import UsageError
from clicket.search import Mixed, deep_search
from clicket.search.engines.adapter import Answer, EngineFailed


def engine(name: str, *ids: str) -> Engine:
    return Engine(default=[document(one, f"The text of {one}.") for one in ids], name=name)


async def test_what_two_engines_find_comes_first() -> None:
    found = await Mixed([engine("one", "a", "b", "c"), engine("two", "d", "b", "e")]).search("query", k=4)
    assert [one.id for one in found] == ["b", "a", "d", "c"]
    assert found[0].score == round(2 / 62, 6)


async def test_weights_count() -> None:
    found = await Mixed([engine("one", "a", "b"), engine("two", "c", "d")], weights=[1, 3]).search("query")
    assert [one.id for one in found] == ["c", "d", "a", "b"]


async def test_an_engine_that_fails_is_reported_and_affects_no_other() -> None:
    mixed = Mixed([engine("one", "a"), Engine(default=ValueError("no key"), name="two")])
    answer = await mixed.ask("query", k=10, deadline=None)
    assert [one.id for one in answer.documents] == ["a"]
    assert answer.notes == ("failed: two: ValueError: no key",)


def test_one_that_hangs_does_not_take_the_others_with_it() -> None:
    mixed = Mixed([Engine(default="hang", name="slow"), engine("quick", "a")])

    async def ask() -> Answer:
        return await mixed.ask("query", k=10, deadline=20.0)

    answer = leaping(ask)
    assert [one.id for one in answer.documents] == ["a"]
    assert [("slow" in note, "16 s" in note) for note in answer.notes] == [(True, True)]


@pytest.mark.parametrize("how", ["too late", "cancelled"])
def test_no_engine_is_left_running(how: str) -> None:
    ended: list[str] = []

    async def slow(query: str) -> list[Any]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")
        return []

    async def work() -> None:
        mixed = Mixed([slow, engine("quick", "a")])
        asking = asyncio.ensure_future(mixed.ask("query", k=10, deadline=20.0))
        if how == "cancelled":
            await asyncio.sleep(1)
            asking.cancel()
        await asyncio.wait((asking,))
        assert ended == ["slow"]
        assert asking.cancelled() is (how == "cancelled")

    leaping(work)


async def test_when_all_fail_the_whole_has_failed() -> None:
    mixed = Mixed([Engine(default=ValueError("no key"), name="one"), Engine(default=[7], name="two")])
    with pytest.raises(EngineFailed, match=r"one: ValueError: no key; two: "):
        await mixed.search("query")


async def test_same_ids_of_two_engines_of_one_kind_stay_two_documents() -> None:
    one = Engine(default=[document("1", "About rivers.", title="Rivers")], name="index")
    two = Engine(default=[document("1", "About lakes.", title="Lakes")], name="index")
    found = await Mixed([one, two]).search("query")
    assert sorted((each.id, each.title) for each in found) == [("1", "Rivers"), ("index-2:1", "Lakes")]


@pytest.mark.parametrize(
    "wrong", [{"engines": []}, {"engines": [Engine()], "weights": [1, 2]}, {"engines": [Engine()], "weights": [-1]}]
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Mixed(**wrong)


async def test_a_search_over_several_engines() -> None:
    engines = [engine("one", "a"), Engine(default=ValueError("no key"), name="two")]
    found = await deep_search("Why?", engines=engines, planner=Plans(["x1"]), analyzer=Scores((0.9, [])), max_loop=1)
    assert [one.id for one in found.documents] == ["a"]
    assert "Round 1, 'x1': failed: two: ValueError: no key" in found.notes
