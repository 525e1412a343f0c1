"""The deep search as any other tool of a runtime: messages, threads, cancels, limits, the cache, HTTP, MCP, its index."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import eventually
from tests.mcp.kit import connected
from tests.mcp.kit import serving as serving_mcp
from tests.scenarios.cli_kit import PROGRAM, Place
from tests.scenarios.kit import assert_sound, make, sqlite_url
from tests.scenarios.server_kit import read_sse, served

from clicket import Settings, State
from clicket.cli.tool_loader import find_tools, load
from clicket.errors import UsageError
from clicket.search import Budget, Citation, Document, Index, deep_search
from clicket.sync import Runtime as SyncRuntime

NAME = "deep_search"
QUESTION = "In which borough was the man born with whom Ada Lovelace worked?"
DOCUMENTS = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace was a writer. She worked with Charles Babbage."},
    {"id": "charles", "title": "Charles Babbage", "text": "Charles Babbage was an engineer. He was born in Walworth."},
    {"id": "walworth", "title": "Walworth", "text": "Walworth is a district in the Borough of Southwark."},
    {"id": "cambridge", "title": "Cambridge", "text": "Cambridge is a city on the River Cam."},
]
MESSAGES = ("state", "extend", "search", "final_result")


@pytest.fixture
def index() -> Iterator[Index]:
    with Index.open() as index:
        index.add(DOCUMENTS)
        yield index


class Gate:
    """An engine that waits: `began` has the queries that came, `ended` how each went."""

    name = "gate"

    def __init__(self, index: Index, *, shut: bool = True) -> None:
        self._index = index
        self.began: list[str] = []
        self.cancelled: list[str] = []
        self.open = asyncio.Event()
        if not shut:
            self.open.set()

    async def search(self, query: str, *, k: int = 10) -> Sequence[Document]:
        self.began.append(query)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(query)
            raise
        return await self._index.search(query, k=k)


def messages(events: Iterable[Any]) -> list[dict[str, Any]]:
    return [e.data["content"] for e in events if e.type == "output"]


def index_at(path: Path, documents: Sequence[dict[str, str]] = tuple(DOCUMENTS)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with Index.open(path) as index:
        index.add(documents)
    return path


# What it gives.


async def test_the_answer_and_its_sources(store: str, index: Index) -> None:
    async with make([deep_search.tool(engine=index)], store) as rt:
        result = await rt.call(NAME, {"query": QUESTION, "max_loop": 3}, thread="t1")
        record = await rt.get(result.call_id)
    assert result.state is State.COMPLETED, result.error
    output = result.output
    assert list(output)[:3] == ["answer", "citations", "documents"], "what a model reads first"
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
    said = messages(record.events)
    assert {one["messageType"] for one in said} == set(MESSAGES)
    assert {one["requestId"] for one in said} == {result.call_id}
    assert [one["seq"] for one in said] == list(range(1, len(said) + 1))
    assert said[-1]["isFinal"]
    assert said[-1]["result"] == output["answer"]
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


# What is refused, and what fails.


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
async def test_what_does_not_fit(index: Index, arguments: dict[str, Any]) -> None:
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


# The cache, and threads.


async def test_equal_questions_are_searched_once_for_two_hours(store: str, index: Index) -> None:
    gate = Gate(index, shut=False)
    tool = deep_search.tool(engine=gate)
    async with make([tool], store) as rt:
        first = await rt.call(NAME, {"query": QUESTION}, thread="a")
        count = len(gate.began)
        second = await rt.call(NAME, {"query": QUESTION}, thread="b")
        assert (second.cached, second.output) == (True, first.output)
        assert len(gate.began) == count
        assert rt.engine.caching.options.ttl_of(tool) == 7200
    other = deep_search.tool(engine=gate, max_loop=1)
    async with make([other], store) as rt:
        assert not (await rt.call(NAME, {"query": QUESTION})).cached, "another set-up has other results"


async def test_what_an_index_said_before_it_changed_is_not_served(tmp_path: Path) -> None:
    path = index_at(tmp_path / "docs.db")
    async with make([deep_search.tool(index=path)]) as rt:
        first = await rt.call(NAME, {"query": QUESTION})
        assert (await rt.call(NAME, {"query": QUESTION})).cached
        index_at(path, [{"id": "walworth", "title": "Walworth", "text": "Walworth is in the Borough of Lambeth."}])
        second = await rt.call(NAME, {"query": QUESTION})
        assert not second.cached
        assert "Lambeth" in second.output["answer"]
        assert "Lambeth" not in first.output["answer"]


async def test_what_an_index_in_memory_said_before_it_changed_is_not_served(tmp_path: Path) -> None:
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
            said = messages((await rt.get(result.call_id)).events)
            assert {m["requestId"] for m in said} == {result.call_id}


# Stopping.


async def test_a_cancel_stops_the_searches_at_once(index: Index) -> None:
    gate = Gate(index)

    async def planned(dossier: Any) -> list[str]:
        return [f"{word} {dossier.question}" for word in ("first", "second", "third")]

    async with make([deep_search.tool(engine=gate, planner=planned)], cancel_grace=5.0) as rt:
        calls = [asyncio.create_task(rt.call(NAME, {"query": QUESTION}, id="direct"))]
        handle = await rt.submit(NAME, {"query": f"{QUESTION} Really?"}, id="submitted")
        await eventually(lambda: len(gate.began) == 6)
        assert await rt.cancel("direct")
        assert await rt.cancel("submitted")
        async with asyncio.timeout(3):
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


async def test_engines_that_are_silent_for_too_long_end_the_call(index: Index) -> None:
    async def silent(query: str) -> Sequence[Document]:
        await asyncio.Event().wait()
        raise AssertionError

    budget = Budget(query=60, searching=60)
    search = deep_search.tool(engine=silent, idle_timeout=0.2, budget=budget, options={"max_retries": 0})
    async with make([search]) as rt:
        result = await asyncio.wait_for(rt.call(NAME, {"query": QUESTION}), 10)
        assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "idle")


async def test_what_is_not_the_engines_silence_is_not_idle(index: Index) -> None:
    """A planner that thinks for longer than `idle_timeout`, and engines that answer one after the other."""

    async def thinks(dossier: Any) -> list[str]:
        await asyncio.sleep(0.5)
        return ["Ada Lovelace", "Charles Babbage", "Walworth"]

    async def in_a_row(query: str) -> Sequence[Document]:
        await asyncio.sleep({"Ada Lovelace": 0.2, "Charles Babbage": 0.4, "Walworth": 0.6}.get(query, 0.0))
        return await index.search(query)

    async with make([deep_search.tool(engine=in_a_row, planner=thinks, idle_timeout=0.4, max_loop=1)]) as rt:
        result = await rt.call(NAME, {"query": QUESTION})
        assert result.success, result.error
        assert "heartbeat" in {event.type for event in (await rt.get(result.call_id)).events}


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
    second = asyncio.Event()

    async def tiring(query: str) -> Sequence[Document]:
        if second.is_set():
            await asyncio.Event().wait()
        asyncio.get_running_loop().call_later(0.2, second.set)
        return await index.search(query)

    async def slowly(dossier: Any) -> list[str]:
        if dossier.rounds:
            await second.wait()
        return [QUESTION] if not dossier.rounds else [f"round {len(dossier.rounds)}"]

    async with make([deep_search.tool(engine=tiring, planner=slowly)]) as rt:
        result = await rt.call(NAME, {"query": QUESTION}, timeout=1.5)
        assert result.success, result.error
        assert result.output["stopped"] == "budget"
        assert result.output["notes"]
        assert result.output["citations"]


async def test_a_part_that_hangs_ends_by_the_budget_too(index: Index) -> None:
    async def deaf(dossier: Any) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with make([deep_search.tool(engine=index, planner=deaf, budget=Budget(decomposing=0.1))]) as rt:
        result = await rt.call(NAME, {"query": QUESTION})
        assert "Southwark" in result.output["answer"], "the deterministic one took over"
        assert not (await rt.call(NAME, {"query": QUESTION})).cached


async def test_what_takes_longer_than_the_call_may_is_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, opened = threading.Event(), Index.open

    def slowly(path: Any, **options: Any) -> Index:
        gate.wait(10)
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
    assert any(b"Ada Lovelace worked, part 7." in data for data in files), "what is in them can be read here"
    assert not any(secret.encode() in data for data in files)


# The index.


async def test_without_options_it_searches_the_index_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with make([deep_search], cache=False) as rt:
        for _ in range(5):  # the tool is well, so it is not taken out of use
            missing = await rt.call(NAME, {"query": QUESTION})
            assert missing.error is not None
            assert missing.error.code == "tool_error"
            assert "clicket index FOLDER" in missing.error.message
        index_at(tmp_path / ".clicket" / "search.db", [])
        empty = await rt.call(NAME, {"query": QUESTION})
        assert empty.error is not None
        assert "is empty" in empty.error.message
        index_at(tmp_path / ".clicket" / "search.db")
        assert "Southwark" in (await rt.call(NAME, {"query": QUESTION})).output["answer"]
        index_at(tmp_path / "new.db", [{"id": "x", "title": "Ada Lovelace", "text": "Ada Lovelace worked in Paris."}])
        for name in ("-wal", "-shm"):
            (tmp_path / ".clicket" / f"search.db{name}").unlink(missing_ok=True)
        (tmp_path / "new.db").replace(tmp_path / ".clicket" / "search.db")
        assert "Paris" in (await rt.call(NAME, {"query": QUESTION})).output["answer"]
    assert "Paris" in (await deep_search(QUESTION)).answer
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(UsageError, match="nothing to search in"):
        await deep_search(QUESTION)


async def test_an_index_that_was_replaced_is_closed_when_its_last_search_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, began, go_on, closed = tmp_path / "docs.db", asyncio.Event(), asyncio.Event(), list[str]()
    close = Index.close
    monkeypatch.setattr(Index, "close", lambda self: (closed.append(self.path), close(self))[1])

    async def planned(dossier: Any) -> list[str]:
        if "slow" in dossier.question:
            began.set()
            await go_on.wait()
        return [QUESTION] if not dossier.rounds else []

    def replaced() -> None:
        index_at(tmp_path / "new.db").replace(path)
        closed.clear()

    index_at(path)
    async with make([deep_search.tool(index=path, planner=planned)], cache=False) as rt:
        slow = asyncio.ensure_future(rt.call(NAME, {"query": "slow"}))
        await began.wait()
        for _ in range(3):
            replaced()
            assert (await rt.call(NAME, {"query": QUESTION})).success
        assert closed == [str(path)], "the second of four: the first is in use, the third just closed"
        go_on.set()
        assert (await slow).success
        assert closed == [str(path)] * 2
    assert closed == [str(path)] * 3


async def test_two_runtimes_have_the_index_each_for_itself(tmp_path: Path) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def planned(dossier: Any) -> list[str]:
        if "slow" in dossier.question:
            began.set()
            await go_on.wait()
        return [dossier.question] if not dossier.rounds else []

    tool = deep_search.tool(index=index_at(tmp_path / "docs.db"), planner=planned)
    async with make([tool], cache=False) as one:
        slow = asyncio.ensure_future(one.call(NAME, {"query": f"slow {QUESTION}"}))
        await began.wait()
        async with make([tool], cache=False) as two:
            assert (await two.call(NAME, {"query": QUESTION})).success
        go_on.set()  # what the other one has closed is not what is searched here
        assert (await slow).success
    async with make([tool], cache=False) as again:
        assert (await again.call(NAME, {"query": QUESTION})).success


async def test_the_index_with_another_engine(tmp_path: Path, index: Index) -> None:
    async def other(query: str) -> list[dict[str, str]]:
        return [{"title": "Elsewhere", "content": "Ada Lovelace worked elsewhere.", "url": "https://example.org/a"}]

    tool = deep_search.tool(index=index_at(tmp_path / "docs.db"), engines=["index", other])
    async with make([tool]) as rt:
        output = (await rt.call(NAME, {"query": QUESTION})).output
    assert "charles" in {one["id"] for one in output["documents"]}
    assert "https://example.org/a" in {one["url"] for one in output["documents"]}


# Doors.


async def test_messages_come_live_over_http(index: Index) -> None:
    gate = Gate(index)
    async with served([deep_search.tool(engine=gate)]) as it:
        id = (await it.post("/calls", json={"tool": NAME, "arguments": {"query": QUESTION}})).json()["id"]
        said: list[str] = []
        size = 0
        async with it.stream("GET", f"/calls/{id}/events") as response:
            async for event in read_sse(response):
                size = max(size, len(json.dumps(event["data"])))
                content = event["data"]["data"].get("content")
                if isinstance(content, dict):
                    said.append(content["messageType"])
                    if content["messageType"] == "extend":
                        gate.open.set()  # nothing more would come if it were not seen while the search goes on
        assert list(dict.fromkeys(said)) == list(MESSAGES)
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
        assert [step for step, _, _ in seen] == sorted({step for step, _, _ in seen}), "rounds, and numbers that grow"
        assert "Southwark" in json.loads(result.content[0].text)["answer"]


# Finding it.


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
    assert [t.name for t in found({"CLICKET_SEARCH": "{}"})] == [NAME], "a section without a word in it is one"
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    declared = {"engines": ["index", {"kind": "searxng", "url": "http://127.0.0.1:9"}], "model": "openai:gpt-x"}
    (tool,) = found({"CLICKET_SEARCH": json.dumps(declared)})
    assert [getattr(one, "name", one) for one in tool.setup.engines] == ["index", "searxng"]
    assert "gpt-x" in tool.setup.model.name
    for wrong, said in (
        ({"engines": [{"kind": "searxgn"}]}, "engines: there is no search engine of the kind 'searxgn'. Did you mean"),
        ({"engines": ["brave"]}, "BRAVE_API_KEY is not set"),
        ({"model": "gpt-x"}, "model: 'gpt-x' does not say whose model it is"),
    ):
        with pytest.raises(UsageError) as refused:
            found({"CLICKET_SEARCH": json.dumps(wrong)})
        assert refused.value.message.startswith("[search] of CLICKET_SEARCH: ")
        assert said in refused.value.message
