"""Tools for the Claude Agent SDK: the MCP server by itself; and, where the SDK is installed, a real run of Claude Code with it."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from tests.adapters.kit import PNG, RUNS, add, draw, fail, nothing, read, runtime
from tests.adapters.provider import Provider

import clicket.sync
from clicket.adapters.claude_agent import as_sdk_server

ID = "toolu_01ABCDEFGHIJKLMNOP"


async def called(client: Client, name: str, arguments: dict[str, Any], id: str | None = None) -> tuple[str, bool]:
    meta: Any = None if id is None else {"claudecode/toolUseId": id}
    made: Any = await client.call_tool(name, arguments, meta=meta)
    return made.content[0].text, bool(made.is_error)


async def test_the_tools_of_a_thread_are_listed_and_run() -> None:
    async with runtime(tools=[add, read, fail]) as rt:
        server = as_sdk_server(rt, "t1")
        assert (server["type"], server["name"]) == ("sdk", "clicket")
        async with Client(server["instance"]) as client:
            listed = {tool.name.split("_")[0]: tool for tool in (await client.list_tools()).tools}
            assert listed["add"].description == "Add two numbers."
            assert listed["add"].input_schema["required"] == ["a"]
            assert await called(client, "add", {"a": 1, "b": 2}) == ("3", False)
            assert (await called(client, listed["files"].name, {"path": "x"}))[0] == "Größe von x: 3 €"
            assert await called(client, "fail", {}) == ("tool_error: ValueError: out of paper", True)
            text, failed = await called(client, "add", {"a": "one"})
            assert failed
            assert text.startswith("invalid_input: ")
        records = (await rt.history(thread="t1")).items
    assert len(records) == 4


async def test_images_of_a_result_are_images_for_claude() -> None:
    async with runtime(tools=[draw]) as rt, Client(as_sdk_server(rt, "t1")["instance"]) as client:
        made: Any = await client.call_tool("draw", {})
        text, picture = made.content
        assert "image/png" in text.text
        assert (picture.type, picture.mime_type, base64.b64decode(picture.data)) == ("image", "image/png", PNG)
        again: Any = await client.call_tool("draw", {"broken": True})
        assert again.is_error
        assert [block.type for block in again.content] == ["text"]


async def test_a_call_that_is_asked_for_again_runs_once_and_a_counter_is_no_id() -> None:
    async with runtime(tools=[add]) as rt, Client(as_sdk_server(rt, "t1")["instance"]) as client:
        for _ in range(2):
            assert await called(client, "add", {"a": 1}, ID) == ("2", False)
        assert RUNS == [("add", (1, 1))]
        assert (await rt.get(ID)).output == 2  # found by Claude's id
        for _ in range(2):
            await called(client, "add", {"a": 5}, "call_0")
        assert RUNS == [("add", (1, 1)), ("add", (5, 1)), ("add", (5, 1))]


async def test_the_hub_decides_what_is_listed() -> None:
    async with runtime(tools=[add, nothing]) as rt, Client(as_sdk_server(rt, "t1")["instance"]) as client:
        await rt.hub("t1").set("add", "maintenance", "closed")
        assert [tool.name for tool in (await client.list_tools()).tools] == ["nothing"]
        text, failed = await called(client, "add", {"a": 1})
        assert failed
        assert text.startswith("tool_unavailable: ")


def test_a_blocking_runtime_serves_too() -> None:
    async def ask(server: Any) -> tuple[str, bool]:
        async with Client(server["instance"]) as client:
            return await called(client, "add", {"a": 1})

    with clicket.sync.Runtime([add], store="memory://") as rt:
        assert asyncio.run(ask(as_sdk_server(rt, "t1"))) == ("2", False)


async def test_claude_code_calls_the_tools(provider: Provider, tmp_path: Path) -> None:
    sdk = pytest.importorskip("claude_agent_sdk")
    provider.checks = False  # Claude Code uses what our own requests do not
    uses = [
        {"type": "tool_use", "id": ID, "name": "mcp__clicket__add", "input": {"a": 1, "b": 2}},
        {"type": "tool_use", "id": f"{ID}Q", "name": "mcp__clicket__fail", "input": {}},
    ]
    provider.answers = [{"content": uses}, {"content": [{"type": "text", "text": "Done."}]}]
    environment = {
        "ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": "sk-ant-x", "CLAUDE_CONFIG_DIR": str(tmp_path),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "ENABLE_TOOL_SEARCH": "false",
    }  # fmt: skip
    async with runtime(tools=[add, fail]) as rt:
        options = sdk.ClaudeAgentOptions(
            mcp_servers={"clicket": as_sdk_server(rt, "t1")}, allowed_tools=["mcp__clicket__add", "mcp__clicket__fail"],
            setting_sources=[], tools=[], cwd=str(tmp_path), env=environment, max_turns=3,
        )  # fmt: skip
        messages = [message async for message in sdk.query(prompt="Add them.", options=options)]
        assert messages[-1].result == "Done."
        assert (await rt.get(ID)).output == 3
    assert RUNS == [("add", (1, 2))]
    results = provider.requests[-1]["messages"][-1]["content"]
    assert [(each["tool_use_id"], bool(each.get("is_error"))) for each in results] == [(ID, False), (f"{ID}Q", True)]
