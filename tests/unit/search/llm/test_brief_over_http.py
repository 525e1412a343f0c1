"""A small model behind an OpenAI-compatible server: what a search shows when it answers, refuses, invents, or does not answer in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.adapters.provider import Provider, serving

from clicket.models import OpenAIModel
from clicket.search import Budget, Index, SearchResult, deep_search

TEXT = "Mint is a herb. It needs water every 2 days. It was brought to Ardley by Agnes Roth."
QUESTION = "How often does mint need water?"
QUOTED = "It needs water every 2 days."


@pytest.fixture
def index() -> Iterator[Index]:
    with Index.open() as made:
        made.add([{"id": "mint", "title": "Mint", "text": TEXT}])
        yield made


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with serving() as made:
        yield made


async def ask(provider: Provider, index: Index, *answers: str, **options: Any) -> SearchResult:
    provider.answers = [{"content": one} for one in answers]
    model = OpenAIModel("small", base_url=f"{provider.url}/v1", api_key="none", options={"temperature": 0})
    try:
        return await deep_search(QUESTION, engine=index, model=model, brief=True, **options)
    finally:
        await model.close()


async def test_the_sentence_of_the_model_with_its_source(provider: Provider, index: Index) -> None:
    result = await ask(provider, index, "1: Mint needs water every 2 days.")
    assert result.answer == "Mint needs water every 2 days [1]."
    assert [one.text for one in result.citations] == [QUOTED]
    assert not result.notes
    (body,) = provider.requests
    assert body["max_tokens"] <= 200
    assert "response_format" not in body


async def test_a_sentence_that_no_passage_supports_is_dropped(provider: Provider, index: Index) -> None:
    result = await ask(provider, index, "1: Mint needs water every 9 days.")
    assert "9 days" not in result.answer
    assert QUOTED in [one.text for one in result.citations]
    assert result.unsupported == ("Mint needs water every 9 days.",)


async def test_a_refusal_of_the_model(provider: Provider, index: Index) -> None:
    result = await ask(provider, index, "0")
    assert not result.answered
    assert not result.citations
    assert result.answer.startswith("The documents do not answer this question.")
    assert ["found no answer" in note for note in result.notes] == [True]


async def test_a_server_that_does_not_answer_in_time(provider: Provider, index: Index) -> None:
    held = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        result = await ask(provider, index, budget=Budget(synthesizing=0.2))
    finally:
        held.set()
        server.close()
        await server.wait_closed()
    assert QUOTED in [one.text for one in result.citations]
    # The model's limit is a tenth shorter than the stage's, and either may be the first on a machine with other work.
    assert ["answer within 0.18 s" in note or "answer within 0.2 s" in note for note in result.notes] == [True]
