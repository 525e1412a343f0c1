"""Tools for the OpenAI Agents SDK, in real runs of its agents against the fake provider. The SDK is not an extra of clicket: the tests run
where it is installed; without it, that is what the module says."""

from __future__ import annotations

import asyncio
import base64
import importlib
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.adapters.kit import PNG, RUNS, add, draw, fail, nothing, read, runtime, wire_name
from tests.adapters.provider import Provider
from tests.unit.models.kit import openai_model, responses_model, says

import clicket.sync
from clicket import tool
from clicket.errors import UsageError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

APIS = pytest.mark.parametrize("api", ["chat", "responses"])
ID = "call_abcdefghijklmnop"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "clicket.adapters.openai_agents", raising=False)
    monkeypatch.setitem(sys.modules, "agents", None)
    with pytest.raises(UsageError, match="pip install openai-agents"):
        importlib.import_module("clicket.adapters.openai_agents")


class FunctionTool:
    """What the SDK gets of a tool."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)


async def test_images_of_a_result_are_given_as_the_sdk_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SDK: a list with `ToolOutputTextDict` and `ToolOutputImageDict`."""
    monkeypatch.delitem(sys.modules, "clicket.adapters.openai_agents", raising=False)
    monkeypatch.setitem(sys.modules, "agents", SimpleNamespace(FunctionTool=FunctionTool))
    adapter = importlib.import_module("clicket.adapters.openai_agents")
    monkeypatch.delitem(sys.modules, "clicket.adapters.openai_agents")
    async with runtime(tools=[draw, add]) as rt:
        tools = {each.name: each for each in await adapter.as_agents_tools(rt, "t1")}
        context = SimpleNamespace(tool_call_id=ID)
        text, picture = await tools["draw"].on_invoke_tool(context, "{}")
        assert text["type"] == "text"
        assert "image/png" in text["text"]
        data = base64.b64encode(PNG).decode()
        assert picture == {"type": "image", "image_url": f"data:image/png;base64,{data}"}
        assert await tools["add"].on_invoke_tool(context, '{"a": 1}') == "2"


def agent_of(gpt: AsyncOpenAI, api: str, tools: list[Any]) -> Any:
    sdk = pytest.importorskip("agents")
    sdk.set_tracing_disabled(True)
    kind = sdk.OpenAIChatCompletionsModel if api == "chat" else sdk.OpenAIResponsesModel
    return sdk.Agent(name="Clerk", tools=tools, model=kind("gpt-x", gpt))


def answers(api: str, *steps: Any) -> list[Any]:
    make = openai_model if api == "chat" else responses_model
    return [says(make, step) if isinstance(step, str) else says(make, "", *step) for step in steps]


def sent(request: dict[str, Any]) -> dict[str, str]:
    """The results in a request, by the ids of their calls."""
    items = request.get("messages") or request["input"]
    found = {each.get("tool_call_id") or each.get("call_id"): each.get("content", each.get("output")) for each in items}
    return {id: text for id, text in found.items() if id and text is not None}


@tool(depends_on="add")
async def after() -> str:
    """Only after `add`."""
    return "after"


@APIS
async def test_an_agent_calls_tools_and_reads_their_results(provider: Provider, gpt: AsyncOpenAI, api: str) -> None:
    sdk = pytest.importorskip("agents")
    from clicket.adapters.openai_agents import as_agents_tools

    async with runtime(tools=[add, read, fail, after]) as rt:
        tools = await as_agents_tools(rt, "t1")
        file = next(each.name for each in tools if each.name.startswith("files"))
        calls = [
            (f"{ID}1", "add", '{"a": 1}'), (f"{ID}2", file, '{"path": "x"}'), (f"{ID}3", "fail", "{}"),
            (f"{ID}4", "add", '{"a": '),
        ]  # fmt: skip
        provider.answers = answers(api, calls, [(f"{ID}5", "after", "{}")], "Done.")
        result = await sdk.Runner.run(agent_of(gpt, api, tools), "go")
        assert result.final_output == "Done."
        records = (await rt.history(thread="t1")).items
    assert len(records) == 5
    offered = [[(each.get("function") or each)["name"] for each in request["tools"]] for request in provider.requests]
    assert ["after" in names for names in offered] == [False, True, True]
    results = sent(provider.requests[-1])
    assert [results[f"{ID}{n}"] for n in (1, 2, 3, 5)] == [
        "2", "Größe von x: 3 €", "Error: tool_error: ValueError: out of paper", "after",
    ]  # fmt: skip
    assert results[f"{ID}4"].startswith("Error: invalid_input: ")
    assert wire_name(provider.requests[0]["tools"], "add") == "add"


@APIS
async def test_a_call_of_a_run_that_is_repeated_runs_once(provider: Provider, gpt: AsyncOpenAI, api: str) -> None:
    sdk = pytest.importorskip("agents")
    from clicket.adapters.openai_agents import as_agents_tools

    async with runtime(tools=[add]) as rt:
        agent = agent_of(gpt, api, await as_agents_tools(rt, "t1"))
        for id, runs in ((ID, 1), (ID, 1), ("call_0", 2), ("call_0", 3)):  # a counter is not an id
            provider.answers = answers(api, [(id, "add", '{"a": 1}')], "Done.")
            await sdk.Runner.run(agent, "go")
            assert len(RUNS) == runs
        assert (await rt.get(ID)).output == 2


def test_the_blocking_runtime() -> None:
    pytest.importorskip("agents")
    from clicket.adapters.openai_agents import as_agents_tools

    class Context:
        tool_call_id = ID

    with clicket.sync.Runtime(tools=[nothing], store="memory://") as rt:
        [made] = as_agents_tools(rt, "t1")
        assert asyncio.run(made.on_invoke_tool(Context(), "{}")) == "null"  # type: ignore[arg-type]
