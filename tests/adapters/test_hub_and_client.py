"""Availability across turns, with the real hub; and the same adapters over HTTP, with the real server and its clients."""

from __future__ import annotations

from typing import Any

from tests.adapters.kit import RUNS, add, anthropic_results, chat_results, fail, nothing, read, refused, runtime
from tests.scenarios.server_kit import served, serving_in_thread

from clicket import tool
from clicket.adapters import anthropic, openai
from clicket.adapters.langchain import as_langchain_tools
from clicket.client import Client, SyncClient


@tool
async def login() -> str:
    """First."""
    return "in"


@tool(name="mail.send", depends_on="login")
async def send(text: str) -> str:
    """Only after login."""
    return f"sent {text}"


def response(id: str, *calls: tuple[str, str, Any]) -> dict[str, Any]:
    return {"id": id, "content": [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in calls]}


async def test_a_dependency_opens_in_the_next_turn() -> None:
    async with runtime(tools=[login, send]) as rt:
        assert [param["name"] for param in await anthropic.tool_params(rt, "t1")] == ["login"]
        (early,) = await anthropic.run(rt, response("m1", ("u1", "mail.send", {"text": "x"})), "t1")
        assert refused(str(early["content"]), "tool_unavailable")
        assert "mail.send" not in str(early["content"]), "the model reads names that its provider accepts"
        await anthropic.run(rt, response("m2", ("u1", "login", {})), "t1")
        names = [param["name"] for param in await anthropic.tool_params(rt, "t1")]
        assert len(names) == 2
        (done,) = await anthropic.run(rt, response("m3", ("u1", names[1], {"text": "x"})), "t1")
        assert done["content"] == "sent x"
        assert len(await anthropic.tool_params(rt, "t2")) == 1, "another thread has not logged in"


async def test_a_failing_tool_is_hidden_from_the_model() -> None:
    async with runtime(tools=[fail, nothing]) as rt:
        for turn in range(3):
            await anthropic.run(rt, response(f"m{turn}", ("u1", "fail", {})), "t1")
        assert [t["function"]["name"] for t in await openai.tool_params(rt, "t1")] == ["nothing"]
        assert [t.name for t in await as_langchain_tools(rt, "t1")] == ["nothing"]
        await rt.hub("t1").reset("fail")
        assert len(await openai.tool_params(rt, "t1")) == 2


async def test_over_http() -> None:
    RUNS.clear()
    async with served([add, read, fail]) as api, Client(api.url) as rt:
        assert len(await anthropic.tool_params(rt, "t1")) == 3
        asked = response("m1", ("u1", "add", {"a": 1}), ("u2", "files.read", {"path": "é"}), ("u3", "fail", {}))
        results = await anthropic.run(rt, asked, "t1")
        anthropic_results().validate_python(results)
        assert [(r["content"], r["is_error"]) for r in results] == [
            ("2", False), ("Größe von é: 3 €", False), ("tool_error: ValueError: out of paper", True),
        ]  # fmt: skip
        assert await anthropic.run(rt, asked, "t1") == results
        assert len(RUNS) == 2
        texts = [
            '{"a": ',
            "[1]",
            '"x"',
            "nope",
            '{"a": 1, "a": 2}',
            '{"a": NaN}',
            '{"a": 1},"tool":"fail"',
            '{"a": 1},"priority":9',
        ]
        calls = [{"id": f"c{n}", "function": {"name": "add", "arguments": t}} for n, t in enumerate(texts)]
        results = await openai.run(rt, {"id": "x", "choices": [{"message": {"tool_calls": calls}}]}, "t1")
        chat_results().validate_python(results)
        assert [m["tool_call_id"] for m in results] == [f"c{n}" for n in range(len(texts))]
        assert all(refused(m["content"], "invalid_input") for m in results), results
        assert len(RUNS) == 2
    gone = await anthropic.run(rt, response("m2", ("u1", "add", {"a": 1})), "t1")
    assert [r["is_error"] for r in gone] == [True]


def test_over_http_without_a_loop() -> None:
    with serving_in_thread([add]) as url, SyncClient(str(getattr(url, "url", url))) as rt:
        assert [param["name"] for param in anthropic.tool_params(rt, "t1")] == ["add"]
        assert anthropic.run(rt, response("m1", ("u1", "add", {"a": 1})), "t1")[0]["content"] == "2"
        assert as_langchain_tools(rt, "t1")[0].invoke({"a": 2}) == "3"
