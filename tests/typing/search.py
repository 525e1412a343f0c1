"""The search API for type checkers: right uses pass, both checkers report wrong ones."""

from __future__ import annotations

from typing import Any, assert_type

from clicket import Runtime
from clicket.search import Budget, Document, Index, SearchResult, deep_search, deep_search_stream


async def own_engine(query: str) -> list[dict[str, str]]:
    return [{"title": query, "text": "…"}]


async def searching() -> None:
    with Index.open(":memory:") as index:
        index.add([{"id": "1", "text": "…"}, Document(id="2", text="…")])
        result = await deep_search("question", engine=index, max_loop=2, budget=Budget(query=5))
        assert_type(result, SearchResult)
        assert_type(result.answer, str)
        assert_type(result.documents, tuple[Document, ...])
        assert_type(result.rounds[0].completeness_score, float)
        async for message in deep_search_stream("question", engines=[index, own_engine]):
            assert_type(message, dict[str, Any])
        await deep_search("question", engin=index)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        await deep_search("question", max_loop="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def as_a_tool() -> None:
    other = deep_search.tool(engine=own_engine, max_loop=1, name="ask")
    assert_type(other.name, str)
    async with Runtime([deep_search, other], store="memory://") as rt:
        assert_type((await rt.call("ask", {"query": "question"})).success, bool)
