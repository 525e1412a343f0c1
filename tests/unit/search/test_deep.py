"""`deep_search` as a function: its arguments and its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.unit.search.fakes import Engine, Plans, document

import clicket.search
from clicket.errors import UsageError
from clicket.search import Budget, Index, deep_search, deep_search_stream

FILMS = [
    {
        "id": "film",
        "title": "Alpine Light",
        "text": "Alpine Light is a 1931 film directed by Ada Blum. It was shot in Davos.",
    },
    {"id": "ada", "title": "Ada Blum", "text": "Ada Blum was a Swiss director. She was born in the town of Murten."},
    {
        "id": "murten",
        "title": "Murten",
        "text": "Murten is a town on a lake of the same name in the canton of Fribourg.",
    },
    {"id": "davos", "title": "Davos", "text": "Davos is a town in the Alps, known for skiing."},
    {"id": "other", "title": "Green Water", "text": "Green Water is a 1950 film directed by Paul Kern."},
]


async def test_an_answer_from_an_index_cites_what_is_there() -> None:
    with Index.open(":memory:") as index:
        index.add(FILMS)
        found = await deep_search("Where was the director of the film Alpine Light born?", engine=index, max_loop=3)
    texts = {one["id"]: one["text"] for one in FILMS}
    assert {"film", "ada"} <= {one.id for one in found.documents[:3]}
    assert "Murten" in found.answer
    assert found.citations
    for one in found.citations:
        assert texts[one.doc][one.start : one.end] == one.text
    scores = [one.score for one in found.documents]
    assert scores == sorted(scores, reverse=True)
    for done in found.rounds:
        assert done.queries
        assert 0 <= done.completeness_score <= 1
        assert isinstance(done.unexplored_areas, tuple)


async def test_messages_of_an_index_end_with_the_same_result() -> None:
    with Index.open(":memory:") as index:
        index.add(FILMS)
        question = "Where was the director of Alpine Light born?"
        result = (await deep_search(question, engine=index)).to_json()
        messages = [one async for one in deep_search_stream(question, engine=index)]
    final = messages[-1]
    assert final["result"] == result["answer"]
    for name in ("citations", "rounds", "stopped", "notes"):
        assert final[name] == result[name]
    assert msgspec.json.encode(messages)


@pytest.mark.parametrize("found", [[], [document("x", "Nothing of the kind.")]])
async def test_a_plan_that_led_nowhere_is_mended_by_the_question(found: list[Any]) -> None:
    with Index.open(":memory:") as index:
        index.add(FILMS)

        async def engine(query: str) -> Sequence[Any]:
            return found if query.startswith("poor") else await index.search(query)

        planned = {"sub_queries": [f"poor {n}" for n in range(5)]}
        question = "Where was the director of the film Alpine Light born?"
        result = await deep_search(question, engine=engine, model=lambda prompt: msgspec.json.encode(planned).decode())
    assert question in result.rounds[1].queries
    assert "Murten" in result.answer


@pytest.mark.parametrize("plans", [Plans(["poor"], ["as poor"]), Plans(["poor"])])
async def test_when_nothing_was_found_the_question_itself_is_searched(plans: Plans) -> None:
    engine = Engine({"poor": [], "as poor": []})
    result = await deep_search("What is Alpine Light?", engine=engine, planner=plans)
    assert result.rounds[1].queries[0] == "What is Alpine Light?"
    assert result.documents


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "nothing to search in"),
        ({"engine": 7}, "cannot search"),
        ({"engine": Engine(), "engines": [Engine()]}, "not both"),
        ({"engines": []}, "at least one"),
        ({"engines": "bing"}, "list of engines"),
        ({"engine": Engine(), "max_loop": 0}, "max_loop"),
        ({"engine": Engine(), "max_loop": True}, "max_loop"),
        ({"engine": Engine(), "max_loop": "3"}, "max_loop"),
        ({"engine": Engine(), "k": 1000}, "k is a whole number"),
        ({"engine": Engine(), "budget": {"max_rounds": 1}}, "Budget"),
        ({"engine": Engine(), "planner": "plan"}, "planner="),
        ({"engine": Engine(), "planner": Plans}, "planner="),
        ({"engine": Engine(), "max_page_size": -1}, "max_page_size"),
        ({"engine": Engine(), "max_loops": 3}, "unknown option 'max_loops'. Did you mean 'max_loop'"),
    ],
)
async def test_wrong_options_are_refused_before_an_engine_is_called(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        await deep_search("Why?", **options)
    with pytest.raises(UsageError, match=reason):
        await anext(deep_search_stream("Why?", **options))


@pytest.mark.parametrize("question", ["", " \n", None, 7, "x" * 10_001])
async def test_a_question_is_needed(question: Any) -> None:
    with pytest.raises(UsageError, match="question"):
        await deep_search(question, engine=Engine())


async def test_questions_of_any_kind_come_to_an_end() -> None:
    for question in ("???", "the of and", "\ud800 half", "长江在哪里？", "x" * 10_000, "<b>\0"):
        found = await deep_search(question, engine=Engine(), budget=Budget(max_rounds=2))
        assert found.rounds[0].queries
        assert msgspec.json.encode(found.to_json())


def test_every_public_name_is_there() -> None:
    for name in clicket.search.__all__:
        assert getattr(clicket.search, name) is not None
