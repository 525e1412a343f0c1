"""The rules of a search, one by one: when it goes on, when it stops, what it asks, and what it says."""

from __future__ import annotations

import asyncio
from inspect import iscoroutinefunction
from itertools import count, pairwise
from threading import Event, current_thread, main_thread
from typing import Any

import pytest
from msgspec.structs import asdict
from tests.unit.search.fakes import Cites, Engine, Plans, Scores, document, kinds, leaping

from clicket.errors import UsageError
from clicket.kernel import SEARCH, SearchState
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
    deep_search_stream,
)
from clicket.search.usage import add_note, add_usage, current_usage

OPEN: tuple[float, list[str]] = (0.2, ["something"])
DONE: tuple[float, list[str]] = (0.9, [])


async def told(question: str = "What is it?", **options: Any) -> list[dict[str, Any]]:
    return [one async for one in deep_search_stream(question, **options)]


# --- going on, and stopping -------------------------------------------------------------------------------------------


async def test_the_way_through_the_states() -> None:
    messages = await told(engine=Engine(), planner=Plans(["one"], ["two"]), analyzer=Scores(OPEN, DONE))
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
    assert len(plans.seen) == 4, "nothing is planned for a round that is not allowed"


async def test_iterating_is_not_announced_when_no_round_is_left() -> None:
    messages = await told(engine=Engine(), planner=Plans(["one"], ["two"]), analyzer=Scores(OPEN), max_loop=1)
    assert "iterating" not in kinds(messages)
    assert messages[-1]["stopped"] == "max_loop"


async def test_one_round_is_complete_when_no_more_was_asked_for() -> None:
    found = await deep_search("Why?", engine=Engine(), planner=Plans(["one"]), analyzer=Scores(DONE), max_loop=1)
    assert found.stopped == "complete"


async def test_gaps_reach_the_next_plan() -> None:
    plans = Plans(["one"], ["two"])
    await deep_search("Why?", engine=Engine(), planner=plans, analyzer=Scores((0.1, ["who it was"]), DONE))
    assert plans.seen[0].gaps == ()
    assert plans.seen[1].gaps == ("who it was",)
    assert plans.seen[1].searched == ("one",)


# --- queries ----------------------------------------------------------------------------------------------------------


async def test_no_query_twice_in_whatever_form() -> None:
    engine = Engine()
    plans = Plans(["The Rivers of France", "rivers, france?", "Lakes"], ["FRANCE river", "lake", "the lakes", "Alps"])
    messages = await told(engine=engine, planner=plans, analyzer=Scores(OPEN))
    assert engine.asked == ["The Rivers of France", "Lakes", "Alps"]
    extended = [one["searchResult"]["query"] for one in messages if one["messageType"] == "extend"]
    assert extended == [["The Rivers of France", "Lakes"], ["Alps"]], "what was asked before is taken out first"


async def test_a_plan_of_old_queries_ends_the_search_without_a_round() -> None:
    messages = await told(engine=Engine(), planner=Plans(["one"], ["One", "one!"], ["two"]), analyzer=Scores(OPEN))
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


# --- searching --------------------------------------------------------------------------------------------------------


async def test_searches_run_at_once() -> None:
    met = asyncio.Barrier(3)

    async def search(query: str) -> list[Any]:
        await met.wait()
        return [document(query)]

    found = await deep_search("Why?", engine=search, planner=Plans(["a1", "b1", "c1"]), analyzer=Scores(OPEN))
    assert [one.documents for one in found.rounds[0].found] == [("a1",), ("b1",), ("c1",)]


def test_a_search_that_fails_or_hangs_harms_no_other() -> None:
    engine = Engine({"bad": ValueError("no such host"), "slow": "hang", "none": []})
    plans = Plans(["bad", "good", "slow", "none"])
    messages = leaping(lambda: told(engine=engine, planner=plans, analyzer=Scores(OPEN), max_loop=1))
    result = next(one["searchResult"] for one in messages if one["messageType"] == "search")
    assert result["query"] == ["bad", "good", "slow", "none"]
    assert [[doc["id"] for doc in docs] for docs in result["docs"]] == [[], ["of good"], [], []]
    assert result["failed"] == ["fake: ValueError: no such host", None, "fake: no answer within 20 s", None]
    final = messages[-1]
    assert [one["id"] for one in final["documents"]] == ["of good"]
    assert sorted(final["rounds"][0]["failed"]) == ["bad", "slow"], "what found nothing has not failed"
    assert len(final["notes"]) == 2


async def test_a_search_that_blocks_its_thread_is_left() -> None:
    free = Event()

    def search(query: str) -> list[Any]:
        if query == "slow":
            free.wait(30)
        return [document(query)]

    budget = Budget(query=0.2)
    try:
        found = await deep_search("Why?", engine=search, planner=Plans(["slow", "quick"]), budget=budget, max_loop=1)
    finally:
        free.set()
    assert [one.error is None for one in found.rounds[0].found] == [False, True]
    assert [one.id for one in found.documents] == ["quick"]


async def test_all_searches_failing_is_an_error_with_what_they_said() -> None:
    engine = Engine(default=ConnectionError("refused"))
    with pytest.raises(SearchFailed, match="refused") as caught:
        await deep_search("Why?", engine=engine, planner=Plans(["a1", "b1"]))
    assert caught.value.details["failures"] == dict.fromkeys(["a1", "b1"], "fake: ConnectionError: refused")
    messages = await told(engine=engine, planner=Plans(["a1", "b1"]))
    assert kinds(messages)[-2:] == ["search", "error"]
    assert messages[-1]["isFinal"]
    assert "refused" in messages[-1]["error"]
    assert messages[-1]["state"] == "error"


async def test_a_later_round_that_fails_leaves_what_was_found() -> None:
    engine = Engine({"two": ConnectionError("refused")})
    found = await deep_search("Why?", engine=engine, planner=Plans(["one"], ["two"], ["three"]), analyzer=Scores(OPEN))
    assert found.stopped == "engines_failed"
    assert [one.id for one in found.documents] == ["of one"]
    assert engine.asked == ["one", "two"]
    assert any("All searches of round 2 failed" in note for note in found.notes)


async def test_nothing_found_is_an_answer() -> None:
    found = await deep_search("Why?", engine=Engine(default=[]), planner=Plans(["one"], ["two"]), analyzer=Scores(DONE))
    assert found.documents == ()
    assert found.citations == ()
    assert found.answer


async def test_of_two_finds_that_are_one_document_the_first_counts() -> None:
    found = [document("a", "The text.", title="T", score=3.0), document("b", "The text.", title="T", score=1.0)]
    messages = await told(engine=Engine(default=found), planner=Plans(["one"]), max_loop=1)
    (shown,) = next(one["searchResult"]["docs"] for one in messages if one["messageType"] == "search")
    assert [(one["id"], one["relevance_score"]) for one in shown] == [("a", 3.0)]


async def test_documents_are_one_across_rounds_and_all_reach_the_synthesis() -> None:
    page = "The very same words on two pages. " * 10
    engine = Engine(
        {
            "one": [document("a"), document("b", page)],
            "two": [document("b", page), document("c", page + " "), document("d")],
            "three": [document("e")],
        }
    )
    cites = Cites()
    found = await deep_search(
        "Why?", engine=engine, planner=Plans(["one"], ["two"], ["three"]), analyzer=Scores(OPEN), synthesizer=cites
    )
    assert found.rounds[1].documents == ("b", "d")
    assert sorted(one.id for one in found.documents) == ["a", "b", "d", "e"]
    assert sorted(cites.seen[0].documents) == ["a", "b", "d", "e"], "the last round's documents too"
    assert len(found.citations) == 4


async def test_the_round_is_merged_before_it_is_judged() -> None:
    scores = Scores(OPEN)
    await deep_search("Why?", engine=Engine(), planner=Plans(["one"], ["two"]), analyzer=scores, max_loop=2)
    assert [sorted(one.documents) for one in scores.seen] == [["of one"], ["of one", "of two"]]
    assert [len(one.ranked) for one in scores.seen] == [1, 2]


# --- parts that fail --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planned", [RuntimeError("boom"), "hang", None, {"queries": []}, [1, 2], 7])
def test_a_planner_that_fails_is_replaced(planned: Any) -> None:
    plans = Plans(planned) if planned is not None else Plans(None)
    found = leaping(lambda: deep_search("Who is Ada Lovelace?", engine=Engine(), planner=plans, max_loop=1))
    assert found.rounds[0].queries
    assert any(note.startswith("The planner failed (") for note in found.notes)


@pytest.mark.parametrize(
    "score", [RuntimeError("boom"), "hang", None, Analysis(completeness_score=float("nan")), {"a": 1}]
)
def test_an_analyzer_that_fails_is_replaced(score: Any) -> None:
    found = leaping(lambda: deep_search("Who is Ada?", engine=Engine(), analyzer=Scores(score), max_loop=1))
    assert found.rounds[0].analysis is not None
    assert any(note.startswith("The analyzer failed (") for note in found.notes)


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
    assert any(note.startswith("The synthesizer failed (") for note in found.notes)


async def test_a_ranker_that_fails_is_replaced_and_one_that_forgets_is_completed() -> None:
    engine = Engine({"one": [document("a"), document("b"), document("c")]})

    def broken(findings: Any) -> Any:
        raise RuntimeError("boom")

    found = await deep_search("Why?", engine=engine, planner=Plans(["one"]), ranker=broken, max_loop=1)
    assert len(found.documents) == 3
    assert any(note.startswith("The ranker failed (") for note in found.notes)

    def forgetful(findings: Any) -> Any:
        return [("b", 0.5), ("ghost", 9.0), ("b", 7.0), ("c", 0.123456789)]

    found = await deep_search("Why?", engine=engine, planner=Plans(["one"]), ranker=forgetful, max_loop=1)
    assert [(one.id, one.score) for one in found.documents] == [("b", 0.5), ("c", 0.123457), ("a", 0.0)]


async def test_a_default_part_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, collection: Any) -> None: ...

        async def plan(self, findings: Any) -> Any:
            raise RuntimeError("boom")

    monkeypatch.setattr("clicket.search.run.builder.BridgePlanner", Broken)
    with pytest.raises(SearchFailed, match="planner failed: RuntimeError: boom"):
        await deep_search("Why?", engine=Engine())


async def test_a_part_that_blocks_its_thread_is_left() -> None:
    free = Event()

    def plan(findings: Any) -> list[str]:
        free.wait(30)
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


async def test_a_part_that_is_not_async_is_heard_too() -> None:
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


# --- budgets ----------------------------------------------------------------------------------------------------------


async def test_a_budget_of_rounds_is_named() -> None:
    plans = Plans(["one"], ["two"], ["three"])
    found = await deep_search(
        "Why?", engine=Engine(), planner=plans, analyzer=Scores(OPEN), budget=Budget(max_rounds=2)
    )
    assert (len(found.rounds), found.stopped) == (2, "budget")
    assert "2 rounds" in found.notes[-1]


async def test_a_budget_of_documents_is_kept() -> None:
    engine = Engine({"one": [document(str(at)) for at in range(9)]})
    messages = await told(engine=engine, planner=Plans(["one"]), budget=Budget(max_documents=4))
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


# --- messages ---------------------------------------------------------------------------------------------------------


async def test_messages_have_the_fields_of_the_contract() -> None:
    long = document("long", "x" * 999, url="https://example.org/long", score=0.25)
    messages = await told(
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
    messages = await told(engine=engine, planner=Plans(["one"]), max_loop=1)
    assert messages[-1]["documents"][0]["content"] == "y" * 200


async def test_the_size_of_a_page_is_an_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def size(**options: Any) -> int:
        engine = Engine({"one": [document("long", "x" * 999)]})
        messages = await told(engine=engine, planner=Plans(["one"]), max_loop=1, **options)
        return len(messages[-1]["documents"][0]["content"])

    monkeypatch.setenv("SINGLE_PAGE_MAX_SIZE", "50")
    assert await size() == 50
    assert await size(max_page_size=7) == 7
    monkeypatch.setenv("SINGLE_PAGE_MAX_SIZE", "many")
    assert await size() == 200


async def test_states_change_by_the_table_only() -> None:
    messages = await told(engine=Engine(), planner=Plans(["one"], ["two"]), analyzer=Scores(OPEN))
    states = [SearchState(one["state"]) for one in messages]
    for was, now in pairwise(states):
        assert was is now or now in SEARCH.edges[was]


# --- budgets that make no sense ---------------------------------------------------------------------------------------


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
