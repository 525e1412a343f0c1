"""The queries of a round run at the same time; a query that fails or hangs affects no other."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.unit.search.fakes import DONE, OPEN, Cites, Engine, Plans, Scores, document, kinds, leaping, messages_of

from clicket.search import (
    Budget,
    SearchFailed,
    deep_search,
)


async def test_searches_run_at_once() -> None:
    met = asyncio.Barrier(3)

    async def search(query: str) -> list[Any]:
        await met.wait()
        return [document(query)]

    found = await deep_search("Why?", engine=search, planner=Plans(["a1", "b1", "c1"]), analyzer=Scores(OPEN))
    assert [one.documents for one in found.rounds[0].found] == [("a1",), ("b1",), ("c1",)]


def test_a_search_that_fails_or_hangs_harms_no_other() -> None:
    engine = Engine({"bad": ValueError("no such host"), "slow": "hang", "none": []})
    plans = Plans(["bad", "good", "slow", "none"])
    messages = leaping(lambda: messages_of(engine=engine, planner=plans, analyzer=Scores(OPEN), max_loop=1))
    result = next(one["searchResult"] for one in messages if one["messageType"] == "search")
    assert result["query"] == ["bad", "good", "slow", "none"]
    assert [[doc["id"] for doc in docs] for docs in result["docs"]] == [[], ["of good"], [], []]
    assert result["failed"] == ["fake: ValueError: no such host", None, "fake: no answer within 20 s", None]
    final = messages[-1]
    assert [one["id"] for one in final["documents"]] == ["of good"]
    assert sorted(final["rounds"][0]["failed"]) == ["bad", "slow"], "a query without results has not failed"
    assert len(final["notes"]) == 2


async def test_a_search_that_blocks_its_thread_is_abandoned() -> None:
    free = Event()

    def search(query: str) -> list[Any]:
        if query == "slow":
            free.wait(PATIENCE)
        return [document(query)]

    budget = Budget(query=0.2)
    try:
        found = await deep_search("Why?", engine=search, planner=Plans(["slow", "quick"]), budget=budget, max_loop=1)
    finally:
        free.set()
    assert [one.error is None for one in found.rounds[0].found] == [False, True]
    assert [one.id for one in found.documents] == ["quick"]


async def test_if_all_queries_fail_the_error_has_their_errors() -> None:
    engine = Engine(default=ConnectionError("refused"))
    with pytest.raises(SearchFailed, match="refused") as caught:
        await deep_search("Why?", engine=engine, planner=Plans(["a1", "b1"]))
    assert caught.value.details["failures"] == dict.fromkeys(["a1", "b1"], "fake: ConnectionError: refused")
    messages = await messages_of(engine=engine, planner=Plans(["a1", "b1"]))
    assert kinds(messages)[-2:] == ["search", "error"]
    assert messages[-1]["isFinal"]
    assert "refused" in messages[-1]["error"]
    assert messages[-1]["state"] == "error"


async def test_a_later_round_that_fails_leaves_what_was_found() -> None:
    engine = Engine({"two": ConnectionError("refused")})
    found = await deep_search("Why?", engine=engine, planner=Plans(["one"], ["two"], ["three"]), analyzer=Scores(OPEN))
    assert found.stopped == "engines_failed"
    assert [one.id for one in found.documents] == ["of one"]
    assert engine.asked == ["one", "two"]
    assert any("round 2" in note for note in found.notes)


async def test_nothing_found_is_an_answer() -> None:
    found = await deep_search("Why?", engine=Engine(default=[]), planner=Plans(["one"], ["two"]), analyzer=Scores(DONE))
    assert found.documents == ()
    assert found.citations == ()
    assert found.answer


async def test_of_equal_documents_the_first_counts() -> None:
    found = [document("a", "The text.", title="T", score=3.0), document("b", "The text.", title="T", score=1.0)]
    messages = await messages_of(engine=Engine(default=found), planner=Plans(["one"]), max_loop=1)
    (shown,) = next(one["searchResult"]["docs"] for one in messages if one["messageType"] == "search")
    assert [(one["id"], one["relevance_score"]) for one in shown] == [("a", 3.0)]


async def test_documents_are_one_across_rounds_and_all_reach_the_synthesis() -> None:
    page = "The very same words on two pages. " * 10
    engine = Engine(
        {
            "one": [document("a"), document("b", page)],
            "two": [document("b", page), document("c", page + " "), document("d")],
            "three": [document("e")],
        }
    )
    cites = Cites()
    found = await deep_search(
        "Why?", engine=engine, planner=Plans(["one"], ["two"], ["three"]), analyzer=Scores(OPEN), synthesizer=cites
    )
    assert found.rounds[1].documents == ("b", "d")
    assert sorted(one.id for one in found.documents) == ["a", "b", "d", "e"]
    assert sorted(cites.seen[0].documents) == ["a", "b", "d", "e"], "the last round's documents too"
    assert len(found.citations) == 4


async def test_a_round_is_merged_before_it_is_analyzed() -> None:
    scores = Scores(OPEN)
    await deep_search("Why?", engine=Engine(), planner=Plans(["one"], ["two"]), analyzer=scores, max_loop=2)
    assert [sorted(one.documents) for one in scores.seen] == [["of one"], ["of one", "of two"]]
    assert [len(one.ranked) for one in scores.seen] == [1, 2]
