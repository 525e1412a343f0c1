"""Search tools as engines, for any format of their answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clicket.errors import RetryableError, UsageError
from clicket.testing import memory_runtime
from clicket.tools import tool
from clicket.web import EngineFailed, ToolEngine, engine_of

A, B = "https://a.example/x", "https://b.example/"
BOTH = [("Alpha", A, "About alpha."), ("Beta", B, "About beta.")]

ANSWERS: dict[str, Any] = {
    "list": [{"title": "Alpha", "url": A, "content": "About alpha."}, {"title": "Beta", "link": B, "snippet": "About beta."}],
    "results": {"query": "x", "results": [{"title": t, "url": u, "text": x} for t, u, x in BOTH], "took": 3},
    "serper": {"organic": [{"title": t, "link": u, "snippet": x} for t, u, x in BOTH]},
    "brave": {"web": {"results": [{"title": t, "url": u, "description": x} for t, u, x in BOTH]}},
    "bing": {"webPages": {"value": [{"name": t, "url": u, "snippet": x} for t, u, x in BOTH]}},
    "json text": json.dumps({"results": [{"title": t, "url": u, "content": x} for t, u, x in BOTH]}),
    "wrapped": {"result": [{"title": t, "href": u, "body": x} for t, u, x in BOTH]},
    "mcp structured": {
        "io.clicket/mcp": "content",
        "content": [{"type": "image", "data": "", "mimeType": "image/png"}],
        "structured": {"results": [{"title": t, "url": u, "content": x} for t, u, x in BOTH]},
    },
    "mcp blocks": {"content": [{"type": "text", "text": f"Title: {t}\nURL: {u}\nDescription: {x}"} for t, u, x in BOTH]},
    "mcp json block": [{"type": "text", "text": json.dumps([{"title": t, "url": u, "text": x}])} for t, u, x in BOTH],
    "mcp resources": [{"type": "resource", "resource": {"uri": u, "text": x, "title": t}} for t, u, x in BOTH],
    "fields": f"Found 2 results:\n\nTitle: Alpha\nURL: {A}\nDescription: About alpha.\n\nTitle: Beta\nURL: {B}\nContent: About beta.",
    "numbered": f"Here they are:\n\n1. Alpha\n   URL: {A}\n   Summary: About alpha.\n\n2. Beta\n   URL: {B}\n   Summary: About beta.",
    "markdown": f"## [Alpha]({A})\nAbout alpha.\n\n## [Beta]({B})\nAbout beta.",
    "bold": f"**Title:** Alpha\n**URL:** {A}\n**Snippet:** About alpha.\n---\n**Title:** Beta\n**URL:** {B}\n**Snippet:** About beta.",
    "bare": f"1. **Alpha**\n{A}\nAbout alpha.\n\n2. **Beta**\n{B}\nAbout beta.",
}  # fmt: skip


@pytest.mark.parametrize("form", ANSWERS)
async def test_answers_of_all_forms(form: str) -> None:
    @tool
    async def look_up(q: str, count: int, lang: str) -> Any:
        assert (q, count, lang) == ("x", 7, "en")
        return ANSWERS[form]

    async with memory_runtime([look_up]) as runtime:
        engine = ToolEngine(runtime, "look_up", argument="q", k_argument="count", arguments={"lang": "en"})
        found = await engine.search("x", k=7)
        assert [(one.title, one.url, one.text.rstrip("-\n")) for one in found] == BOTH
        assert {one.source for one in found} == {"look_up"}
        assert len((await runtime.history(tool="look_up")).items) == 1


@pytest.mark.parametrize(
    ("output", "texts"),
    [
        ([], []),
        ({"results": []}, []),
        ("No results found for 'x'.", []),
        ("", []),
        ("A page without an address, as one text.", ["A page without an address, as one text."]),
        (["One.", "Two."], ["One.", "Two."]),
        ({"results": [{"title": "A"}, 7, None]}, [""]),
    ],
)
async def test_answers_with_little_or_nothing(output: Any, texts: list[str]) -> None:
    @tool
    async def find(query: str) -> Any:
        return output

    async with memory_runtime([find]) as runtime:
        assert [one.text for one in await ToolEngine(runtime, "find").search("x")] == texts


@pytest.mark.parametrize("output", [7, None, {"status": "ok"}, {"results": [1, 2]}, [{"a": 1}]])
async def test_what_is_no_answer_is_a_failure(output: Any) -> None:
    @tool
    async def find(query: str) -> Any:
        return output

    async with memory_runtime([find]) as runtime:
        with pytest.raises(EngineFailed, match="fields="):
            await ToolEngine(runtime, "find").search("x")


async def test_places_can_be_named() -> None:
    @tool
    async def find(query: str) -> Any:
        return {"pages": {"list": [{"h": "Alpha", "at": A, "b": ["One", "two"]}]}}

    async with memory_runtime([find]) as runtime:
        answer = {
            "kind": "tool",
            "tool": "find",
            "results": "pages.list",
            "fields": {"title": "h", "url": "at", "text": "b"},
        }
        (found,) = await engine_of(answer, runtime=runtime).search("x")
        assert (found.title, found.url, found.text) == ("Alpha", A, "One\ntwo")
        with pytest.raises(EngineFailed, match=r"pages\.nowhere"):
            await ToolEngine(runtime, "find", results="pages.nowhere").search("x")


async def test_a_tool_that_fails_is_an_engine_that_fails() -> None:
    tries = 0

    @tool(max_retries=1, retry_delay=0.001, failure_threshold=1)
    async def find(query: str) -> Any:
        nonlocal tries
        tries += 1
        raise RetryableError("the index is away")

    async with memory_runtime([find]) as runtime:
        engine = ToolEngine(runtime, "find")
        with pytest.raises(EngineFailed, match=r"the index is away \(tried 2 times\)"):
            await engine.search("x")
        with pytest.raises(EngineFailed, match="failed in this thread"):
            await engine.search("x")
        with pytest.raises(EngineFailed, match="nosuch"):
            await ToolEngine(runtime, "nosuch").search("x")
    assert tries == 2


def test_a_caller_is_needed() -> None:
    with pytest.raises(UsageError, match="runtime"):
        ToolEngine("find", "x")  # type: ignore[arg-type]
