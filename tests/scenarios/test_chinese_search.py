"""Chinese questions over Chinese documents, each of which needs two documents or more, without a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clicket.search import Index, deep_search

FOLDER = Path(__file__).with_name("chinese_search")


def lines(name: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in (FOLDER / name).read_bytes().splitlines()]


@pytest.fixture(scope="module", params=["titles", "no titles"])
def index(request: pytest.FixtureRequest) -> Iterator[Index]:
    documents = lines("documents.jsonl")
    with Index.open() as index:
        index.add(documents if request.param == "titles" else [{**one, "title": ""} for one in documents])
        yield index


async def test_they_are_answered_from_what_is_cited(index: Index) -> None:
    questions = lines("questions.jsonl")
    unanswered, unfound = [], []
    for one in questions:
        result = await deep_search(one["question"], engine=index)
        assert all(cited.holds(index.fetch([cited.doc])[0]) for cited in result.citations)
        assert len(result.citations) <= 8
        if not any(one["answer"] in cited.text for cited in result.citations):
            unanswered.append(one["question"])
        if not set(one["gold"]) <= {document.id for document in result.documents[:5]}:
            unfound.append(one["question"])
    assert len(questions) == 24
    assert unanswered == []
    assert len(unfound) <= 2, unfound
