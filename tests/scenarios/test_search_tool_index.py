"""The index of the tool `deep_search`: found, replaced, shared by runtimes, beside other engines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.kit import make
from tests.scenarios.search_kit import NAME, QUESTION, index_at, index_in_memory

from clicket.errors import UsageError
from clicket.search import Index, deep_search


@pytest.fixture
def index() -> Iterator[Index]:
    with index_in_memory() as index:
        yield index


async def test_without_options_it_searches_the_index_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with make([deep_search], cache=False) as rt:
        for _ in range(5):  # the tool works, so the breaker stays closed
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

    async def planned(findings: Any) -> list[str]:
        if "slow" in findings.question:
            began.set()
            await go_on.wait()
        return [QUESTION] if not findings.rounds else []

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

    async def planned(findings: Any) -> list[str]:
        if "slow" in findings.question:
            began.set()
            await go_on.wait()
        return [findings.question] if not findings.rounds else []

    tool = deep_search.tool(index=index_at(tmp_path / "docs.db"), planner=planned)
    async with make([tool], cache=False) as one:
        slow = asyncio.ensure_future(one.call(NAME, {"query": f"slow {QUESTION}"}))
        await began.wait()
        async with make([tool], cache=False) as two:
            assert (await two.call(NAME, {"query": QUESTION})).success
        go_on.set()  # the connection that the other runtime closed is not used here
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
