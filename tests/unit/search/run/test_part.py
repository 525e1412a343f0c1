"""A part that raises, hangs or returns nonsense is replaced by the built-in one; slow parts leave the loop free."""

from __future__ import annotations

import asyncio
from inspect import iscoroutinefunction
from itertools import count
from threading import Event, current_thread, main_thread
from typing import Any

import pytest
from msgspec.structs import asdict
from tests.kit.waiting import PATIENCE
from tests.unit.search.fakes import Engine, Plans, Scores, document, leaping

from clicket.model.chat import Usage
from clicket.search import (
    Analysis,
    BridgePlanner,
    Budget,
    CoverageAnalyzer,
    ExtractiveSynthesizer,
    LinkRanker,
    MemoryCheckpoints,
    SearchFailed,
    Synthesis,
    deep_search,
)
from clicket.search.usage import add_note, add_usage


@pytest.mark.parametrize("planned", [RuntimeError("boom"), "hang", None, {"queries": []}, [1, 2], 7])
def test_a_planner_that_fails_is_replaced(planned: Any) -> None:
    plans = Plans(planned) if planned is not None else Plans(None)
    found = leaping(lambda: deep_search("Who is Ada Lovelace?", engine=Engine(), planner=plans, max_loop=1))
    assert found.rounds[0].queries
    assert any("planner" in note for note in found.notes)


@pytest.mark.parametrize(
    "score", [RuntimeError("boom"), "hang", None, Analysis(completeness_score=float("nan")), {"a": 1}]
)
def test_an_analyzer_that_fails_is_replaced(score: Any) -> None:
    found = leaping(lambda: deep_search("Who is Ada?", engine=Engine(), analyzer=Scores(score), max_loop=1))
    assert found.rounds[0].analysis is not None
    assert any("analyzer" in note for note in found.notes)


@pytest.mark.parametrize("answer", [RuntimeError("boom"), "hang", 7, Synthesis(answer=None)])  # type: ignore[arg-type]
def test_a_synthesizer_that_fails_is_replaced(answer: Any) -> None:
    async def synthesize(findings: Any) -> Any:
        if answer == "hang":
            await asyncio.Event().wait()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    found = leaping(lambda: deep_search("Who is Ada?", engine=Engine(), synthesizer=synthesize, max_loop=1))
    assert isinstance(found.answer, str)
    assert any("synthesizer" in note for note in found.notes)


async def test_a_ranker_that_fails_is_replaced_and_one_that_forgets_is_completed() -> None:
    engine = Engine({"one": [document("a"), document("b"), document("c")]})

    def broken(findings: Any) -> Any:
        raise RuntimeError("boom")

    found = await deep_search("Why?", engine=engine, planner=Plans(["one"]), ranker=broken, max_loop=1)
    assert len(found.documents) == 3
    assert any("ranker" in note for note in found.notes)

    def forgetful(findings: Any) -> Any:
        return [("b", 0.5), ("ghost", 9.0), ("b", 7.0), ("c", 0.123456789)]

    found = await deep_search("Why?", engine=engine, planner=Plans(["one"]), ranker=forgetful, max_loop=1)
    assert [(one.id, one.score) for one in found.documents] == [("b", 0.5), ("c", 0.123457), ("a", 0.0)]


async def test_a_default_part_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *given: Any, **options: Any) -> None: ...

        async def plan(self, findings: Any) -> Any:
            raise RuntimeError("boom")

    monkeypatch.setattr("clicket.search.run.builder.BridgePlanner", Broken)
    with pytest.raises(SearchFailed, match=r"planner.*RuntimeError: boom"):
        await deep_search("Why?", engine=Engine())


async def test_a_part_that_blocks_its_thread_is_abandoned() -> None:
    free = Event()

    def plan(findings: Any) -> list[str]:
        free.wait(PATIENCE)
        return ["late"]

    budget = Budget(decomposing=0.05)
    try:
        found = await deep_search("Who is Ada?", engine=Engine(), planner=plan, budget=budget, max_loop=1)
    finally:
        free.set()
    assert "late" not in found.rounds[0].queries


async def test_a_ranker_without_an_end_is_cut_off() -> None:
    found = await deep_search(
        "Why?", engine=Engine(), planner=Plans(["one"]), ranker=lambda findings: (("of one", 0.5) for _ in count())
    )
    assert [(one.id, one.score) for one in found.documents] == [("of one", 0.5)]


@pytest.mark.parametrize("size", [40, 40_000])
async def test_the_loop_goes_on_while_parts_read_long_texts(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    where: dict[str, bool] = {}

    def watched(part: type, method: str) -> None:
        real = getattr(part, method)

        def run(self: Any, findings: Any) -> Any:
            where[method] = current_thread() is main_thread()
            return real(self, findings)

        async def run_async(self: Any, findings: Any) -> Any:
            return await run(self, findings)

        monkeypatch.setattr(part, method, run_async if iscoroutinefunction(real) else run)

    for part, method in (
        (BridgePlanner, "plan"), (LinkRanker, "rank"), (CoverageAnalyzer, "analyze"), (ExtractiveSynthesizer, "synthesize"),
    ):  # fmt: skip
        watched(part, method)
    pages = [document(str(at), f"Ada Blum met Bob {at}. " * (size // 20)) for at in range(6)]
    found = await deep_search("Whom did Ada Blum meet?", engine=Engine(default=pages), max_loop=2)
    assert found.citations
    assert where == dict.fromkeys(("plan", "rank", "analyze", "synthesize"), size == 40)


async def test_notes_and_usage_of_a_sync_part_count() -> None:
    def planned(findings: Any) -> list[str]:
        add_note("half of a sign: \ud83d")
        add_usage(Usage(input_tokens=3))
        return ["one"]

    kept = MemoryCheckpoints()
    found = await deep_search("Why?", engine=Engine(), planner=planned, max_loop=1, checkpoints=kept)
    assert found.notes == ("half of a sign: \ufffd",)
    assert found.usage.total == 3


async def test_a_part_may_be_a_plain_function_with_plain_values() -> None:
    true = document("of one").cite(0, 4)
    false = {**asdict(true), "text": "Lies"}
    found = await deep_search(
        "Why?",
        engine=Engine(),
        planner=lambda findings: ("one",),
        analyzer=lambda findings: {"completeness_score": 1, "unexplored_areas": []},
        synthesizer=lambda findings: {"answer": "So it is [1]. Or not [2].", "citations": [asdict(true), false]},
        max_loop=1,
    )
    assert found.rounds[0].queries == ("one",)
    assert found.stopped == "complete"
    assert found.citations == (true,)
    assert (found.answer, found.unsupported, found.notes) == ("So it is [1].", ("Or not.",), ())
