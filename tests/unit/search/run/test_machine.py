"""The states of a search: when it continues, when it stops, and which queries it sends."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.search.fakes import DONE, OPEN, Engine, Plans, Scores, kinds, messages_of

from clicket.kernel import SEARCH, SearchState
from clicket.search import (
    Budget,
    deep_search,
)


async def test_the_way_through_the_states() -> None:
    messages = await messages_of(engine=Engine(), planner=Plans(["one"], ["two"]), analyzer=Scores(OPEN, DONE))
    one_round = ["decomposing", "extend", "searching", "search", "analyzing"]
    assert kinds(messages) == [
        "initializing",
        *one_round,
        "iterating",
        *one_round,
        "synthesizing",
        "final_result",
    ]
    assert [one["loop"] for one in messages] == [1] * 7 + [2] * 7
    assert messages[-1]["state"] == "completed"


async def test_two_rounds_at_least_though_the_first_was_enough() -> None:
    found = await deep_search(
        "Why?", engine=Engine(), planner=Plans(["one"], ["two"], ["three"]), analyzer=Scores(DONE)
    )
    assert (len(found.rounds), found.stopped) == (2, "complete")


@pytest.mark.parametrize("left", [(0.69, []), (0.9, ["an area"])])
async def test_it_goes_on_while_something_is_open_and_rounds_are_left(left: tuple[float, list[str]]) -> None:
    plans = Plans(*([f"query {at}"] for at in range(9)))
    found = await deep_search("Why?", engine=Engine(), planner=plans, analyzer=Scores(left), max_loop=4)
    assert (len(found.rounds), found.stopped) == (4, "max_loop")
    assert len(plans.seen) == 4, "no plan for a round beyond the limit"


async def test_iterating_is_not_announced_when_no_round_is_left() -> None:
    messages = await messages_of(engine=Engine(), planner=Plans(["one"], ["two"]), analyzer=Scores(OPEN), max_loop=1)
    assert "iterating" not in kinds(messages)
    assert messages[-1]["stopped"] == "max_loop"


async def test_one_round_is_complete_when_no_more_was_requested() -> None:
    found = await deep_search("Why?", engine=Engine(), planner=Plans(["one"]), analyzer=Scores(DONE), max_loop=1)
    assert found.stopped == "complete"


async def test_gaps_reach_the_next_plan() -> None:
    plans = Plans(["one"], ["two"])
    await deep_search("Why?", engine=Engine(), planner=plans, analyzer=Scores((0.1, ["who it was"]), DONE))
    assert plans.seen[0].gaps == ()
    assert plans.seen[1].gaps == ("who it was",)
    assert plans.seen[1].searched == ("one",)


async def test_no_query_twice_in_whatever_form() -> None:
    engine = Engine()
    plans = Plans(["The Rivers of France", "rivers, france?", "Lakes"], ["FRANCE river", "lake", "the lakes", "Alps"])
    messages = await messages_of(engine=engine, planner=plans, analyzer=Scores(OPEN))
    assert engine.asked == ["The Rivers of France", "Lakes", "Alps"]
    extended = [one["searchResult"]["query"] for one in messages if one["messageType"] == "extend"]
    assert extended == [["The Rivers of France", "Lakes"], ["Alps"]], "earlier queries are removed first"


async def test_a_plan_of_old_queries_ends_the_search_without_a_round() -> None:
    messages = await messages_of(
        engine=Engine(), planner=Plans(["one"], ["One", "one!"], ["two"]), analyzer=Scores(OPEN)
    )
    assert kinds(messages)[-4:] == ["iterating", "decomposing", "synthesizing", "final_result"]
    assert messages[-1]["stopped"] == "nothing_new"
    assert len(messages[-1]["rounds"]) == 1


async def test_five_queries_a_round_at_most_and_fewer_by_budget() -> None:
    many = [f"query number {at}" for at in range(50)]
    for limit in (5, 2):
        engine = Engine()
        await deep_search(
            "Why?",
            engine=engine,
            planner=Plans(many),
            max_loop=1,
            budget=Budget(max_queries=limit),
            analyzer=Scores(OPEN),
        )
        assert engine.asked == many[:limit]


async def test_a_first_plan_of_nothing_asks_the_question() -> None:
    engine = Engine()
    await deep_search("What is that?", engine=engine, planner=Plans([]), analyzer=Scores(OPEN), max_loop=1)
    assert engine.asked == ["What is that?"]


async def test_states_change_by_the_table_only() -> None:
    messages = await messages_of(engine=Engine(), planner=Plans(["one"], ["two"]), analyzer=Scores(OPEN))
    states = [SearchState(one["state"]) for one in messages]
    for was, now in pairwise(states):
        assert was is now or now in SEARCH.edges[was]


async def test_nothing_goes_on_after_a_cancel() -> None:
    ended: list[str] = []

    async def search(query: str) -> list[Any]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(query)
        return []

    running = asyncio.ensure_future(deep_search("Why?", engine=search, planner=Plans(["a1", "b1"])))
    while len(asyncio.all_tasks()) < 4:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(ended) == ["a1", "b1"]
