"""The messages of a search: their fields, and how much of a document they contain."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.search.fakes import OPEN, Engine, Plans, Scores, document, messages_of


async def test_messages_have_the_fields_of_the_contract() -> None:
    long = document("long", "x" * 999, url="https://example.org/long", score=0.25)
    messages = await messages_of(
        "Why?",
        engine=Engine({"one": [long]}),
        planner=Plans(["one"]),
        max_loop=1,
        request_id="r-1",
        analyzer=Scores(OPEN),
    )
    assert [one["seq"] for one in messages] == list(range(1, len(messages) + 1))
    for one in messages:
        assert {"requestId", "seq", "messageType", "state", "message", "loop", "timestamp", "query", "isFinal"} <= set(
            one
        )
        assert (one["requestId"], one["query"]) == ("r-1", "Why?")
        assert one["isFinal"] == (one["messageType"] == "final_result")
    search = next(one for one in messages if one["messageType"] == "search")
    assert search["searchResult"] == {
        "query": ["one"],
        "docs": [
            [
                {
                    "id": "long",
                    "title": "Title long",
                    "content": "x" * 200,
                    "url": "https://example.org/long",
                    "source": "fake",
                    "relevance_score": 0.25,
                }
            ]
        ],
        "failed": [None],
    }
    final = messages[-1]
    assert isinstance(final["result"], str)
    assert {"citations", "documents", "rounds", "stopped", "notes"} <= set(final)
    assert len(final["documents"][0]["content"]) == 200


async def test_a_long_document_is_shown_where_it_was_found() -> None:
    engine = Engine({"one": [document("long", "x" * 500 + "y" * 500, spans=((500, 900),))]})
    messages = await messages_of(engine=engine, planner=Plans(["one"]), max_loop=1)
    assert messages[-1]["documents"][0]["content"] == "y" * 200


async def test_the_size_of_a_page_is_an_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def size(**options: Any) -> int:
        engine = Engine({"one": [document("long", "x" * 999)]})
        messages = await messages_of(engine=engine, planner=Plans(["one"]), max_loop=1, **options)
        return len(messages[-1]["documents"][0]["content"])

    monkeypatch.setenv("SINGLE_PAGE_MAX_SIZE", "50")
    assert await size() == 50
    assert await size(max_page_size=7) == 7
    monkeypatch.setenv("SINGLE_PAGE_MAX_SIZE", "many")
    assert await size() == 200
