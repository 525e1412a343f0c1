"""With any planner, analyzer, synthesizer and engine, a search ends by its rules and cites only text of its documents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.search.fakes import leaping

from clicket.kernel import SEARCH, SearchState
from clicket.model.document import Citation, Document
from clicket.search import Analysis, Budget, MemoryCheckpoints, Synthesis
from clicket.search.findings import Findings, SearchFailed
from clicket.search.run.builder import build_search
from clicket.search.run.machine import Machine
from clicket.search.text.queries import key_of

QUERIES = [
    "river",
    "The Rivers",
    "lake of Bern",
    "bern lakes",
    "",
    "  ",
    "the",
    "中文",
    "a\ud800b",
    "x" * 3000,
    "Ada",
    "Blum",
]
TEXTS = [
    "",
    "short",
    "A page about rivers. " * 30,
    "A page about rivers. " * 31,
    "中文页面。" * 60,
    "a \ud800 half",
    "y" * 2000,
]

odd = st.sampled_from(["raise", "hang", "stubborn", "quit", None, 7, {"a": 1}, [None, 3], "endless"])
planned = st.one_of(st.lists(st.sampled_from(QUERIES), max_size=9), odd)
entry: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries(
        {"text": st.sampled_from(TEXTS)},
        optional={
            "id": st.sampled_from(["1", "2", 3, "", None, "x" * 5000]),
            "title": st.sampled_from(["", "River", b"\xff", 5]),
            "url": st.sampled_from(["", "https://example.org/a", "http://www.example.org/a/#b", "http://[", 9]),
            "score": st.sampled_from([0.5, float("nan"), float("inf"), "1", None, 10**400]),
            "source": st.sampled_from(["web", "", 4]),
        },
    ),
    st.builds(
        Document,
        id=st.sampled_from(["1", "2", "d"]),
        text=st.sampled_from(TEXTS),
        score=st.sampled_from([1.0, 2, float("nan")]),
        spans=st.sampled_from([(), ((0, 5),), ((4, 2),), ((0, 10**9),)]),
    ),
    st.sampled_from([None, 7, "text", [], {}]),
)
answered = st.one_of(st.lists(entry, max_size=5), odd)
judged = st.one_of(
    st.tuples(
        st.sampled_from([0.0, 0.69, 0.7, 1.0, 7.0, -1.0]),
        st.lists(st.sampled_from(["", "area", "a\ud800"]), max_size=3),
    ),
    st.sampled_from([(float("nan"), []), (True, []), ("high", []), (0.9, "area")]),
    odd,
)
written = st.one_of(st.sampled_from(["cites", "lies", "text", "wrong"]), odd)


class Chaos:
    """All parts in one. Values for successive calls repeat from the start."""

    name = "chaos"

    def __init__(self, plans: list[Any], answers: list[Any], scores: list[Any], writing: Any) -> None:
        self._plans, self._answers, self._scores, self._writing = plans, answers, scores, writing
        self.asked: list[str] = []

    async def plan(self, findings: Findings) -> Any:
        return await self._do(self._plans[len(findings.rounds) % len(self._plans)])

    async def search(self, query: str, *, k: int, deadline: float | None) -> Any:
        self.asked.append(query)
        return await self._do(self._answers[sum(map(ord, query)) % len(self._answers)])

    async def analyze(self, findings: Findings) -> Any:
        command = await self._do(self._scores[len(findings.rounds) % len(self._scores)])
        return (
            Analysis(completeness_score=command[0], unexplored_areas=command[1])
            if isinstance(command, tuple)
            else command
        )

    async def synthesize(self, findings: Findings) -> Any:
        command = await self._do(self._writing)
        texts = [one for one in findings.documents.values() if one.text]
        if command == "cites":
            return Synthesis(answer="It is so [1].", citations=tuple(one.cite(0, 1) for one in texts))
        if command == "lies":
            lie = Citation(doc=texts[0].id if texts else "ghost", start=0, end=4, sha256="0" * 64, text="lies")
            return Synthesis(answer="It is so [1]. And so [2][99].", citations=(lie, lie))
        return Synthesis(answer=7, citations=None) if command == "wrong" else command  # type: ignore[arg-type]

    async def _do(self, command: Any) -> Any:
        if command == "raise":
            raise RuntimeError("chaos \ud800")
        if command == "quit":
            raise asyncio.CancelledError
        if command == "hang":
            await asyncio.Event().wait()
        if command == "stubborn":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(3)
        return _endless() if command == "endless" else command


def _endless() -> Iterator[str]:
    return (f"query {at}" for at in count())


async def follow(machine: Machine) -> list[dict[str, Any]]:
    return [one async for one in machine.stream()]


@given(
    plans=st.lists(planned, min_size=1, max_size=4),
    answers=st.lists(answered, min_size=1, max_size=4),
    scores=st.lists(judged, min_size=1, max_size=3),
    writing=written,
    given_parts=st.booleans(),
    max_loop=st.integers(1, 4),
    budget=st.builds(
        Budget,
        max_rounds=st.integers(1, 4),
        max_queries=st.integers(1, 5),
        max_documents=st.integers(1, 8),
        max_seconds=st.sampled_from([0.5, 25.0, 480.0]),
        searching=st.sampled_from([5.0, 60.0]),
    ),
)
def test_every_search_ends_by_its_rules(
    plans: list[Any],
    answers: list[Any],
    scores: list[Any],
    writing: Any,
    given_parts: bool,
    max_loop: int,
    budget: Budget,
) -> None:
    def begin(kept: MemoryCheckpoints) -> Machine:
        chaos = Chaos(plans, answers, scores, writing)
        parts: dict[str, Any] = {"planner": chaos, "analyzer": chaos, "synthesizer": chaos} if given_parts else {}
        parts["engine"] = chaos
        return build_search("Which river is it?", **parts, max_loop=max_loop, budget=budget, checkpoints=kept)

    kept = MemoryCheckpoints()
    machine = begin(kept)
    messages = leaping(lambda: follow(machine))

    assert [one["seq"] for one in messages] == list(range(1, len(messages) + 1))
    states = [SearchState(one["state"]) for one in messages]
    assert all(was is now or now in SEARCH.edges[was] for was, now in pairwise(states))
    assert [one["isFinal"] for one in messages] == [False] * (len(messages) - 1) + [True]
    assert msgspec.json.encode(messages)
    searches = [one["searchResult"] for one in messages if one["messageType"] == "search"]
    assert len(searches) <= min(max_loop, budget.max_rounds)
    asked = [query for one in searches for query in one["query"]]
    assert all(1 <= len(one["query"]) <= budget.max_queries for one in searches)
    assert all(len(one["query"]) == len(one["docs"]) == len(one["failed"]) for one in searches)
    assert len({key_of(query) for query in asked}) == len(asked)
    result = machine.result
    if result is None:
        assert isinstance(machine.failure, SearchFailed)
        assert not any(docs for one in searches for docs in one["docs"])
        return
    found = {one.id: one for one in result.documents}
    assert len(found) == len(result.documents) <= budget.max_documents
    assert set(found) == {key for one in result.rounds for key in one.documents}
    assert all(one.holds(found[one.doc]) for one in result.citations)
    assert [(-one.score, one.id) for one in result.documents] == sorted(
        (-one.score, one.id) for one in result.documents
    )

    again = begin(kept)
    assert msgspec.json.encode(leaping(again.finish).to_json()) == msgspec.json.encode(result.to_json())
    del kept.kept["synthesis"]
    if result.stopped != "budget":  # spent time is available again
        resumed = leaping(begin(kept).finish)
        assert msgspec.json.encode(resumed.to_json()) == msgspec.json.encode(result.to_json())
