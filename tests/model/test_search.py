"""Deep search with a real language model that writes the answer. Whatever it says, nothing is shown that no document supports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from clicket.models import OpenAIModel
from clicket.search import Budget, Index, deep_search

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]  # a busy machine makes it many times slower

DOCUMENTS = [
    {"id": "mint", "title": "Mint", "text": "Mint is a herb. It needs water every 2 days. It spreads by its roots."},
    {
        "id": "bridge",
        "title": "The old bridge",
        "text": "The old bridge was built in 1902 by Anna Roth. It has two lanes.",
    },
    {
        "id": "river",
        "title": "The Arn",
        "text": "The Arn is a river of 120 km. The old bridge crosses the Arn near Ardley.",
    },
]


@pytest.fixture
def index() -> Iterator[Index]:
    with Index.open() as made:
        made.add(DOCUMENTS)
        yield made


@pytest.fixture
async def model(address: str, seed: int) -> AsyncIterator[OpenAIModel]:
    options = {"temperature": 0.7, "seed": seed}
    made = OpenAIModel("smollm2", base_url=f"{address}/v1", timeout=300, options=options)
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("question", "known"),
    [
        ("How often does mint need water?", "2 days"),
        ("Who built the old bridge?", "Anna Roth"),
        ("How long is the river Arn?", "120 km"),
    ],
)
async def test_what_is_shown_is_supported(question: str, known: str, index: Index, model: OpenAIModel) -> None:
    result = await deep_search(question, engine=index, model=model, brief=True, budget=Budget(synthesizing=300))
    texts = {one["id"]: one["text"] for one in DOCUMENTS}
    assert result.answered
    assert result.citations
    assert all(texts[one.doc][one.start : one.end] == one.text for one in result.citations)
    assert not [one for one in result.unsupported if one in result.answer]
    assert result.usage.output_tokens <= 2 * 80
    if result.notes and not result.unsupported:  # the model did not write it: these are the sentences of the documents
        assert known in result.answer


async def test_a_question_that_the_documents_do_not_answer(index: Index, model: OpenAIModel) -> None:
    result = await deep_search("Who won the football world cup in 2014?", engine=index, model=model, brief=True)
    assert not result.answered
    assert not result.citations
    assert result.usage.total == 0  # the model was not asked
