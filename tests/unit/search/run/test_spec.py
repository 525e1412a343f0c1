"""Budgets: a spent budget ends the rounds, and the answer is made of what was found."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.search.fakes import OPEN, Engine, Plans, Scores, document, kinds, leaping, messages_of

from clicket.errors import UsageError
from clicket.model.chat import Usage
from clicket.search import (
    Budget,
    Synthesis,
    deep_search,
)
from clicket.search.usage import add_usage, current_usage


async def test_a_budget_of_rounds_is_named() -> None:
    plans = Plans(["one"], ["two"], ["three"])
    found = await deep_search(
        "Why?", engine=Engine(), planner=plans, analyzer=Scores(OPEN), budget=Budget(max_rounds=2)
    )
    assert (len(found.rounds), found.stopped) == (2, "budget")
    assert "2 rounds" in found.notes[-1]


async def test_a_budget_of_documents_is_kept() -> None:
    engine = Engine({"one": [document(str(at)) for at in range(9)]})
    messages = await messages_of(engine=engine, planner=Plans(["one"]), budget=Budget(max_documents=4))
    assert [one["id"] for one in sorted(messages[-1]["documents"], key=lambda one: one["id"])] == ["0", "1", "2", "3"]
    assert messages[-1]["stopped"] == "budget"
    assert kinds(messages)[-3:] == ["search", "synthesizing", "final_result"]


async def test_tokens_that_are_spent_end_the_rounds_and_leave_some_for_the_answer() -> None:
    left: list[int | None] = []

    async def plan(findings: Any) -> list[str]:
        left.append(current_usage().tokens_left)
        add_usage(Usage(input_tokens=300, output_tokens=100))
        return [f"query {len(findings.rounds)}"]

    async def synthesize(findings: Any) -> Synthesis:
        left.append(current_usage().tokens_left)
        return Synthesis(answer="")

    found = await deep_search(
        "Why?",
        engine=Engine(),
        planner=plan,
        analyzer=Scores(OPEN),
        synthesizer=synthesize,
        budget=Budget(max_tokens=1000),
        max_loop=9,
    )
    assert (len(found.rounds), found.stopped) == (2, "budget")
    assert found.usage == Usage(input_tokens=600, output_tokens=200)
    assert left == [800, 400, 200]
    assert "1000 tokens" in found.notes[-1]


def test_time_that_is_spent_while_searching_leaves_what_was_found() -> None:
    engine = Engine({"slow": "hang"})
    plans = Plans(["quick", "slow"], ["more"])
    found = leaping(lambda: deep_search("Why?", engine=engine, planner=plans, budget=Budget(searching=3.0)))
    assert found.stopped == "budget"
    assert [one.id for one in found.documents] == ["of quick"]
    assert found.rounds[0].found[1].error == "fake: the time for searching was spent"


def test_the_time_of_the_whole_search_is_kept() -> None:
    async def slow(query: str) -> list[Any]:
        await asyncio.sleep(15)
        return [document(query)]

    plans = Plans(*([f"query {at}"] for at in range(9)))
    budget = Budget(max_seconds=40)
    found = leaping(
        lambda: deep_search("Why?", engine=slow, planner=plans, analyzer=Scores(OPEN), budget=budget, max_loop=9)
    )
    assert found.stopped == "budget"
    assert [one.found[0].error is None for one in found.rounds] == [True, True, False]


@pytest.mark.parametrize(
    "options",
    [
        {"max_queries": 6},
        {"max_rounds": 0},
        {"max_seconds": 0},
        {"query": float("nan")},
        {"max_tokens": -1},
        {"max_documents": True},
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Budget(**options)
