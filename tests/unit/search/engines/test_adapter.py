"""Any object that searches can be an engine, and none of its answers does harm."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.search.engines.adapter import EngineFailed, as_engine

ENTRY = {"id": "1", "title": "One", "text": "The first."}


async def ask(thing: Any, *, k: int = 10) -> list[Document]:
    return list((await as_engine(thing).ask("query", k=k, deadline=5.0)).documents)


async def _async(query: str) -> list[Any]:
    return [ENTRY]


async def _generated(query: str) -> AsyncIterator[Any]:
    yield ENTRY


def _lazy(query: str) -> Iterator[Any]:
    yield ENTRY


class _Sync:
    def search(self, query: str) -> tuple[Any, ...]:
        return (ENTRY,)


class _Callable:
    async def __call__(self, query: str, *, k: int) -> list[Any]:
        return [ENTRY] * k


class _Later:
    def search(self, query: str) -> Any:
        return _async(query)


@pytest.mark.parametrize(
    "thing",
    [
        _async,
        _generated,
        _lazy,
        _Sync(),
        _Callable(),
        _Later(),
        lambda query: [ENTRY],
        lambda query, **options: {"results": [ENTRY], "k": options["k"], "deadline": options["deadline"]},
        lambda query, k, deadline: iter([ENTRY] * k),
        lambda query: ENTRY,
    ],
)
async def test_anything_that_searches(thing: Any) -> None:
    assert [(one.id, one.title, one.text) for one in await ask(thing)] == [("1", "One", "The first.")]


@pytest.mark.parametrize("thing", [7, "engine", None, dict, _Sync, object()])
def test_what_cannot_search_is_refused(thing: Any) -> None:
    with pytest.raises(UsageError, match="cannot search"):
        as_engine(thing)


async def test_what_blocks_runs_in_a_thread_of_its_own() -> None:
    def search(query: str) -> list[Any]:
        return [{"text": threading.current_thread().name}]

    assert (await ask(search))[0].text.startswith("clicket-thread")


@pytest.mark.parametrize("nothing", [None, [], (), {"results": []}])
async def test_nothing_found_is_no_failure(nothing: Any) -> None:
    assert await ask(lambda query: nothing) == []


@pytest.mark.parametrize(
    "junk", ["no results", b"x", 7, [1, 2], ["text"], [None], {"error": "key"}, [{}], [{"id": "1"}]]
)
async def test_nothing_but_junk_is_a_failure(junk: Any) -> None:
    with pytest.raises(EngineFailed, match=r"^\S+: "):
        await ask(lambda query: junk)


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3), StopIteration(), RecursionError()])
async def test_an_error_names_its_engine(error: BaseException) -> None:
    def bing(query: str) -> Any:
        raise error

    with pytest.raises(EngineFailed, match=r"^bing: "):
        await ask(bing)


async def test_junk_between_documents_is_left_out_and_counted() -> None:
    answer = await as_engine(lambda query: [ENTRY, 7, "x", {"score": 1}]).ask("query", k=10, deadline=None)
    assert [one.id for one in answer.documents] == ["1"]
    assert "3 of 4 entries" in answer.notes[0]


async def test_fields_are_made_to_fit() -> None:
    class Odd:
        title = b"bytes"
        content = "by attribute"
        relevance_score = "0.5"

    found = await ask(
        lambda query: [
            {"id": 7, "title": 8, "text": "a number for an id", "score": float("nan"), "url": None},
            {"content": "no id, an address", "url": " https://Example.org/a/#top ", "score": float("inf")},
            {"snippet": "no id, no address", "source": ["list"]},
            Odd(),
            Document(id="half", text="a \ud800 b", score=1.0),
            Document(id="spans", text="abcdef", score=1, spans=((0, 3), (4, 99))),
            {"id": "x" * 9_999, "text": "a long id"},
        ]
    )
    assert [(one.id, one.title, one.score) for one in found[:1]] == [("7", "8", 0.0)]
    assert (found[1].id, found[1].score) == ("//example.org/a", 0.0)
    assert found[2].id.startswith("<lambda>:")
    assert found[2].source == "<lambda>"
    assert (found[3].title, found[3].text, found[3].score) == ("bytes", "by attribute", 0.5)
    assert found[4].text == "a \ufffd b", "offsets do not change"
    assert found[5].spans == ()
    assert isinstance(found[5].score, float)
    assert len(found[6].id) < 100


async def test_bounds_of_an_answer() -> None:
    def endless(query: str) -> Iterator[Any]:
        while True:
            yield {"text": "x", "id": "same"}

    async def junk(query: str) -> AsyncIterator[Any]:
        while True:
            yield None

    many = [{"id": str(at), "text": "x"} for at in range(500)]
    assert len(await ask(endless)) == 1
    assert len(await ask(lambda query: many, k=7)) == 7
    assert len(await ask(lambda query: many, k=400)) == 100
    with pytest.raises(EngineFailed, match="1000 entries"):
        await ask(junk)


async def test_an_endless_text_is_cut_and_the_cut_is_reported() -> None:
    page: Callable[[str], Any] = lambda query: [{"id": "1", "text": "x" * 100_000_000}]  # noqa: E731
    answer = await as_engine(page, name="web").ask("query", k=10, deadline=None)
    assert len(answer.documents[0].text) == 1_000_000
    assert [("web" in note, "1000000" in note) for note in answer.notes] == [(True, True)]


async def test_one_id_twice_in_an_answer_is_one_document() -> None:
    found = await ask(lambda query: [ENTRY, {**ENTRY, "text": "again"}])
    assert [one.text for one in found] == ["The first."]


class _AlsoAnswers(_Sync):
    """An object with its own `ask`, which takes only a question."""

    def ask(self, question: str) -> str:
        return "42"


async def test_an_ask_that_is_not_ours_is_left_alone() -> None:
    assert [one.id for one in await ask(_AlsoAnswers())] == ["1"]


class _Collected:
    """A collection, whose documents are taken as they are."""

    def __init__(self, *documents: Document) -> None:
        self.documents = list(documents)

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> list[Document]:
        return self.documents

    def size(self) -> int:
        return 1

    frequencies = named = fetch = similarities = size


async def test_documents_of_a_collection_are_taken_as_they_are_unless_they_must_be_changed() -> None:
    plain = Document(id="1", title="Żółw", text="Größe – 3 m.", source="files", score=1.5, spans=((0, 3),))
    broken = Document(id="2", title="x" * 2_000, text="Café \ud800", source="files")
    taken, mended = await ask(_Collected(plain, broken))
    assert taken is plain
    assert (mended.text, len(mended.title)) == ("Café \N{REPLACEMENT CHARACTER}", 1_000)
