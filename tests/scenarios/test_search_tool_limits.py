"""Cancellation, timeouts and budgets of the tool `deep_search`, and secrets in its texts."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.cli_kit import PROGRAM
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.search_kit import NAME, QUESTION, Gate, index_at, index_in_memory

from clicket import State
from clicket.search import Budget, Document, Index, deep_search


@pytest.fixture
def index() -> Iterator[Index]:
    with index_in_memory() as index:
        yield index


async def test_a_cancel_stops_the_searches_at_once(index: Index) -> None:
    gate = Gate(index)

    async def planned(findings: Any) -> list[str]:
        return [f"{word} {findings.question}" for word in ("first", "second", "third")]

    async with make([deep_search.tool(engine=gate, planner=planned)], cancel_grace=60.0) as rt:
        calls = [asyncio.create_task(rt.call(NAME, {"query": QUESTION}, id="direct"))]
        handle = await rt.submit(NAME, {"query": f"{QUESTION} Really?"}, id="submitted")
        await eventually(lambda: len(gate.began) == 6)
        assert await rt.cancel("direct")
        assert await rt.cancel("submitted")
        async with asyncio.timeout(PATIENCE):
            results = [await calls[0], await handle.result()]
        assert [result.state for result in results] == [State.CANCELLED] * 2
        assert sorted(gate.cancelled) == sorted(gate.began)
        assert len(gate.began) == 6


async def test_a_cancel_from_another_process(tmp_path: Path, index: Index) -> None:
    gate, store = Gate(index), sqlite_url(tmp_path)
    async with make([deep_search.tool(engine=gate)], store) as rt:
        handle = await rt.submit(NAME, {"query": QUESTION})
        await eventually(lambda: gate.began)
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "cancel", handle.id, "--store", store, stdout=subprocess.DEVNULL, cwd=tmp_path
        )
        assert await process.wait() == 0
        assert (await handle.result()).state is State.CANCELLED
        assert gate.cancelled == gate.began


SLOWER = (1, 5, 25)
"""A machine that is too slow for some seconds gets so many times more. What a test forbids happens at every pace."""


async def test_engines_that_are_silent_for_too_long_end_the_call(index: Index) -> None:
    async def silent(query: str) -> Sequence[Document]:
        await asyncio.Event().wait()
        raise AssertionError

    budget = Budget(query=60, searching=60)
    search = deep_search.tool(engine=silent, idle_timeout=0.2, budget=budget, options={"max_retries": 0})
    async with make([search]) as rt:
        result = await asyncio.wait_for(rt.call(NAME, {"query": QUESTION}), PATIENCE)
        assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "idle")


async def test_planning_and_answering_do_not_count_as_idle(index: Index) -> None:
    """A planner that takes longer than `idle_timeout`, and engines that answer one after the other."""
    slower = 1

    async def thinks(findings: Any) -> list[str]:
        await asyncio.sleep(0.5 * slower)
        return ["Ada Lovelace", "Charles Babbage", "Walworth"]

    async def in_a_row(query: str) -> Sequence[Document]:
        await asyncio.sleep({"Ada Lovelace": 0.2, "Charles Babbage": 0.4, "Walworth": 0.6}.get(query, 0.0) * slower)
        return await index.search(query)

    for slower in SLOWER:  # read by the functions above
        idle = 0.4 * slower
        async with make([deep_search.tool(engine=in_a_row, planner=thinks, idle_timeout=idle, max_loop=1)]) as rt:
            result = await rt.call(NAME, {"query": QUESTION})
            if result.success:
                assert "heartbeat" in {event.type for event in (await rt.get(result.call_id)).events}
                break
    assert result.success, result.error


async def test_an_engine_that_hangs_ends_by_the_budget(index: Index) -> None:
    gate = Gate(index)
    async with make([deep_search.tool(engine=gate, budget={"query": 0.1})]) as rt:
        result = await rt.call(NAME, {"query": QUESTION})
        assert result.state is State.FAILED
        assert result.error is not None
        assert "no answer within" in result.error.message
        assert gate.cancelled == gate.began


async def test_a_call_whose_time_is_spent_before_anything_is_found_is_a_timeout(index: Index) -> None:
    gate = Gate(index)
    async with make([deep_search.tool(engine=gate)]) as rt:
        result = await rt.call(NAME, {"query": QUESTION}, timeout=0.4)
        assert result.state is State.TIMEOUT
        assert gate.cancelled == gate.began


async def test_a_call_with_little_time_answers_from_what_it_has(index: Index) -> None:
    async def hangs_later(query: str) -> Sequence[Document]:
        if query != QUESTION:
            await asyncio.Event().wait()
        return await index.search(query)

    async def another(findings: Any) -> list[str]:
        return [f"round {len(findings.rounds)}"] if findings.rounds else [QUESTION]

    async with make([deep_search.tool(engine=hangs_later, planner=another)]) as rt:
        for slower in SLOWER:
            result = await rt.call(NAME, {"query": QUESTION}, timeout=1.5 * slower)
            if result.success:
                break
        assert result.success, result.error
        assert result.output["stopped"] == "budget"
        assert result.output["notes"]
        assert result.output["citations"]


async def test_a_part_that_hangs_ends_by_the_budget_too(index: Index) -> None:
    async def deaf(findings: Any) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with make([deep_search.tool(engine=index, planner=deaf, budget=Budget(decomposing=0.1))]) as rt:
        result = await rt.call(NAME, {"query": QUESTION})
        assert "Southwark" in result.output["answer"], "the deterministic synthesizer took over"
        assert not (await rt.call(NAME, {"query": QUESTION})).cached


async def test_work_that_takes_longer_than_the_call_is_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, opened = threading.Event(), Index.open

    def slowly(path: Any, **options: Any) -> Index:
        gate.wait(PATIENCE)
        return opened(path, **options)

    path = index_at(tmp_path / "docs.db")
    monkeypatch.setattr(Index, "open", slowly)
    async with make([deep_search.tool(index=path)]) as rt:
        result = await rt.call(NAME, {"query": QUESTION}, timeout=0.2)
        assert result.state is State.TIMEOUT
        gate.set()
        assert (await rt.call(NAME, {"query": QUESTION})).success


@pytest.mark.parametrize("sealing", [None, "a key of more than sixteen characters"])
async def test_a_secret_in_a_long_text_is_nowhere_in_the_store(tmp_path: Path, sealing: str | None) -> None:
    secret = "sk-proj-0123456789abcdefABCDEF"
    long = " ".join(f"Ada Lovelace worked, part {n}." for n in range(4_000))

    async def engine(query: str) -> list[dict[str, str]]:
        return [{"id": "1", "title": "Ada Lovelace", "text": f"{long} The key is {secret}. {long}"}]

    async with make([deep_search.tool(engine=engine)], sqlite_url(tmp_path), secret_key=sealing) as rt:
        assert (await rt.call(NAME, {"query": QUESTION})).success
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"Ada Lovelace worked, part 7." in data for data in files), "the files are readable here"
    assert not any(secret.encode() in data for data in files)
