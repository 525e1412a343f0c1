"""The deep search as a tool of a runtime: output, errors, cache, threads, HTTP, MCP, settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import eventually
from tests.mcp.kit import connected
from tests.mcp.kit import serving as serving_mcp
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import assert_sound, make, sqlite_url
from tests.scenarios.search_kit import DOCUMENTS, MESSAGES, NAME, QUESTION, Gate, index_at, index_in_memory, messages
from tests.scenarios.server_kit import read_sse, served

from clicket import Settings, State
from clicket.cli.tool_loader import find_tools, load
from clicket.engine.cache.caching import ttl_of
from clicket.errors import UsageError
from clicket.search import Citation, Document, Index, deep_search
from clicket.sync import Runtime as SyncRuntime


@pytest.fixture
def index() -> Iterator[Index]:
    with index_in_memory() as index:
        yield index


# Output.


async def test_the_answer_and_its_sources(store: str, index: Index) -> None:
    async with make([deep_search.tool(engine=index)], store) as rt:
        result = await rt.call(NAME, {"query": QUESTION, "max_loop": 3}, thread="t1")
        record = await rt.get(result.call_id)
    assert result.state is State.COMPLETED, result.error
    output = result.output
    assert list(output)[:3] == ["answer", "citations", "documents"], "the model reads these first"
    assert "Southwark" in output["answer"]
    texts = {one["id"]: one["text"] for one in DOCUMENTS}
    assert output["citations"]
    for one in output["citations"]:
        assert Citation(**one).holds(Document(id=one["doc"], text=texts[one["doc"]]))
    assert {"id", "title", "url", "source", "content", "score", "relevance_score"} == set(output["documents"][0])
    assert set(output) == {*(await deep_search(QUESTION, engine=index)).to_json(), "documents_found"}
    assert 1 <= len(output["rounds"]) <= 3
    assert all(
        {"queries", "documents", "completeness_score", "unexplored_areas"} <= one.keys() for one in output["rounds"]
    )
    assert json.loads(result.content) == output
    assert_sound(record)
    sent = messages(record.events)
    assert {one["messageType"] for one in sent} == set(MESSAGES)
    assert {one["requestId"] for one in sent} == {result.call_id}
    assert [one["seq"] for one in sent] == list(range(1, len(sent) + 1))
    assert sent[-1]["isFinal"]
    assert sent[-1]["result"] == output["answer"]
    assert record.progress is not None
    assert record.progress["percentage"] == 100
    assert record.progress["total_steps"] == 10


async def test_the_same_bytes_as_the_function_gives(index: Index) -> None:
    async with make([deep_search.tool(engine=index)]) as rt:
        output = (await rt.call(NAME, {"query": QUESTION})).output
    plain = (await deep_search(QUESTION, engine=index)).to_json()
    assert {name: output[name] for name in ("answer", "citations", "rounds")} == {
        name: plain[name] for name in ("answer", "citations", "rounds")
    }
    final = [one async for one in deep_search.tool(engine=index).stream(QUESTION)][-1]
    assert final["result"] == plain["answer"]


async def test_many_and_long_documents_do_not_flood_a_model(index: Index) -> None:
    index.add(
        {"id": f"n{n}", "title": f"Lovelace {n}", "text": f"Ada Lovelace worked, part {n}. " * 400} for n in range(60)
    )
    tool = deep_search.tool(engine=index, k=50, max_documents=5, whole=True)
    async with make([tool]) as rt:
        result = await rt.call(NAME, {"query": QUESTION})
        record = await rt.get(result.call_id)
        whole = msgspec.json.decode(await rt.artifact(result.output["artifact"]))
        assert not (await rt.call(NAME, {"query": QUESTION})).cached
    assert len(result.output["documents"]) == 5
    assert all(len(one["content"]) <= 200 for one in result.output["documents"])
    assert result.output["documents_found"] == len(whole["documents"]) > 40
    assert any(len(one["content"]) > 5_000 for one in whole["documents"])
    assert max(len(msgspec.json.encode(event.data)) for event in record.events) < 100_000


async def test_without_a_loop(tmp_path: Path) -> None:
    path = index_at(tmp_path / "docs.db")

    def run() -> Any:
        with SyncRuntime([deep_search.tool(index=path)], settings=Settings(store="memory://")) as rt:
            return rt.call(NAME, {"query": QUESTION}).output

    assert "Southwark" in (await asyncio.to_thread(run))["answer"]


# Refusals and failures.


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": " \n"},
        {"query": 5},
        {"query": "x" * 10_001},
        {"query": "x", "max_loop": 0},
        {"query": "x", "max_loop": 11},
        {"query": "x", "max_loop": 1.5},
        {"query": "x", "loops": 1},
    ],
)
async def test_invalid_arguments(index: Index, arguments: dict[str, Any]) -> None:
    gate = Gate(index)
    async with make([deep_search.tool(engine=gate)]) as rt:
        result = await rt.call(NAME, arguments)
    assert result.error is not None
    assert result.error.code == "invalid_input"
    assert not gate.began


async def test_an_engine_that_fails_is_a_failure_and_no_empty_answer() -> None:
    async def broken(query: str) -> list[Any]:
        raise ConnectionError("no route to the engine")

    async with make([deep_search.tool(engine=broken)]) as rt:
        result = await rt.call(NAME, {"query": QUESTION})
        record = await rt.get(result.call_id)
    assert result.state is State.FAILED
    assert result.error is not None
    assert result.error.code == "tool_error"
    assert "no route to the engine" in result.error.message
    assert messages(record.events)[-1]["messageType"] == "error"


async def test_results_that_a_failure_made_smaller_are_not_served_again(index: Index) -> None:
    asked: list[str] = []

    async def shaky(query: str) -> Sequence[Document]:
        asked.append(query)
        if len(asked) == 2:
            raise ConnectionError("once")
        return await index.search(query)

    async with make([deep_search.tool(engine=shaky)]) as rt:
        first = await rt.call(NAME, {"query": QUESTION})
        assert first.success, first.error
        assert any(one["failed"] for one in first.output["rounds"])
        second = await rt.call(NAME, {"query": QUESTION})
        assert not second.cached
        assert (await rt.call(NAME, {"query": QUESTION})).cached


# Cache and threads.


async def test_equal_questions_are_searched_once_for_two_hours(store: str, index: Index) -> None:
    gate = Gate(index, shut=False)
    tool = deep_search.tool(engine=gate)
    async with make([tool], store) as rt:
        first = await rt.call(NAME, {"query": QUESTION}, thread="a")
        count = len(gate.began)
        second = await rt.call(NAME, {"query": QUESTION}, thread="b")
        assert (second.cached, second.output) == (True, first.output)
        assert len(gate.began) == count
        assert ttl_of(rt.engine.caching.options, tool) == 7200
    other = deep_search.tool(engine=gate, max_loop=1)
    async with make([other], store) as rt:
        assert not (await rt.call(NAME, {"query": QUESTION})).cached, "another configuration has other results"


async def test_a_changed_index_is_searched_again(tmp_path: Path) -> None:
    path = index_at(tmp_path / "docs.db")
    async with make([deep_search.tool(index=path)]) as rt:
        first = await rt.call(NAME, {"query": QUESTION})
        assert (await rt.call(NAME, {"query": QUESTION})).cached
        index_at(path, [{"id": "walworth", "title": "Walworth", "text": "Walworth is in the Borough of Lambeth."}])
        second = await rt.call(NAME, {"query": QUESTION})
        assert not second.cached
        assert "Lambeth" in second.output["answer"]
        assert "Lambeth" not in first.output["answer"]


async def test_a_changed_index_in_memory_is_searched_again(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    with Index.open() as first, Index.open() as second:
        first.add(DOCUMENTS)
        second.add([{**one, "text": one["text"].replace("Southwark", "Camden")} for one in DOCUMENTS])
        for index, place in ((first, "Southwark"), (second, "Camden")):
            async with make([deep_search.tool(engine=index)], url) as rt:
                assert place in (await rt.call(NAME, {"query": QUESTION})).output["answer"]
        async with make([deep_search.tool(engine=first)], url) as rt:
            assert (await rt.call(NAME, {"query": QUESTION})).cached
            first.add([{**DOCUMENTS[2], "text": "Walworth is a district in the Borough of Islington."}])
            assert "Islington" in (await rt.call(NAME, {"query": QUESTION})).output["answer"]


async def test_threads_share_nothing(index: Index) -> None:
    gate = Gate(index)
    async with make([deep_search.tool(engine=gate)]) as rt:
        one = await rt.submit(NAME, {"query": QUESTION}, thread="one")
        two = await rt.submit(NAME, {"query": "Where does the River Cam flow?"}, thread="two")
        await eventually(lambda: len(gate.began) >= 2)
        gate.open.set()
        first, second = await one.result(), await two.result()
        assert "Southwark" in first.output["answer"]
        assert "Cambridge" in second.output["answer"]
        asked = {
            result.call_id: {q for r in result.output["rounds"] for q in r["queries"]} for result in (first, second)
        }
        assert not asked[first.call_id] & asked[second.call_id]
        for result in (first, second):
            sent = messages((await rt.get(result.call_id)).events)
            assert {m["requestId"] for m in sent} == {result.call_id}


# HTTP and MCP.


async def test_messages_come_live_over_http(index: Index) -> None:
    gate = Gate(index)
    async with served([deep_search.tool(engine=gate)]) as it:
        id = (await it.post("/calls", json={"tool": NAME, "arguments": {"query": QUESTION}})).json()["id"]
        types: list[str] = []
        size = 0
        async with it.stream("GET", f"/calls/{id}/events") as response:
            async for event in read_sse(response):
                size = max(size, len(json.dumps(event["data"])))
                content = event["data"]["data"].get("content")
                if isinstance(content, dict):
                    types.append(content["messageType"])
                    if content["messageType"] == "extend":
                        gate.open.set()  # the engine waits for this: the event must be readable while the search runs
        assert list(dict.fromkeys(types)) == list(MESSAGES)
        assert size < 64 * 1024
        result = (await it.get(f"/calls/{id}/result")).json()
        assert "Southwark" in json.dumps(result)


async def test_over_mcp(index: Index) -> None:
    async with (
        make([deep_search.tool(engine=index)]) as rt,
        serving_mcp(rt) as url,
        connected(url) as client,
    ):
        seen: list[tuple[float, float | None, str | None]] = []

        async def progress(step: float, total: float | None, message: str | None) -> None:
            seen.append((step, total, message))

        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [NAME]
        result = await client.call_tool(NAME, {"query": QUESTION}, progress_callback=progress)
        assert not result.is_error
        await eventually(lambda: seen and seen[-1][0] == 10)
        assert [step for step, _, _ in seen] == sorted({step for step, _, _ in seen}), "step numbers increase"
        assert "Southwark" in json.loads(result.content[0].text)["answer"]


# Settings.


def test_a_command_finds_the_tool_by_name_and_by_the_settings_file(tmp_path: Path) -> None:
    place = Place(tmp_path, "memory://", "")
    index_at(tmp_path / ".clicket" / "search.db")
    named = place.inside("call", NAME, f"query={QUESTION}", "--tools", "clicket.search:deep_search", "--json")
    assert "Southwark" in json.loads(named.stdout)["output"]["answer"], named.stderr
    assert [tool.name for tool in load("clicket.search")] == [NAME]
    index_at(tmp_path / "docs.db")
    (tmp_path / "clicket.toml").write_text('[search]\nindex = "docs.db"\nmax_loop = 1\n')
    found = place.inside("call", NAME, f"query={QUESTION}", "--json")
    assert len(json.loads(found.stdout)["output"]["rounds"]) == 1, found.stderr
    (tmp_path / "clicket.toml").write_text("[search]\nmax_loops = 1\n")
    wrong = place.inside("tools")
    assert wrong.returncode == 2
    assert "max_loop" in wrong.stderr


def test_settings_make_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(environ: dict[str, str], **given: Any) -> list[Any]:
        return find_tools(Settings.load(environ=environ, **given), warn=print)

    assert NAME not in {tool.name for tool in found({})}
    (tool,) = (t for t in found({"CLICKET_SEARCH": '{"max_loop": 2, "budget": {"query": 3}}'}) if t.name == NAME)
    assert (tool.setup.max_loop, tool.setup.budget.query) == (2, 3)
    assert tool.input_schema["properties"]["max_loop"]["default"] == 2
    assert [t.name for t in found({"CLICKET_SEARCH": "{}"})] == [NAME], "an empty section counts, too"
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    declared = {"engines": ["index", {"kind": "searxng", "url": "http://127.0.0.1:9"}], "model": "openai:gpt-x"}
    (tool,) = found({"CLICKET_SEARCH": json.dumps(declared)})
    assert [getattr(one, "name", one) for one in tool.setup.engines] == ["index", "searxng"]
    assert "gpt-x" in tool.setup.model.name
    for wrong, named in (
        ({"engines": [{"kind": "searxgn"}]}, "searxgn"),
        ({"engines": ["brave"]}, "BRAVE_API_KEY"),
        ({"model": "gpt-x"}, "gpt-x"),
    ):
        with pytest.raises(UsageError) as refused:
            found({"CLICKET_SEARCH": json.dumps(wrong)})
        assert "[search] of CLICKET_SEARCH" in refused.value.message
        assert named in refused.value.message
