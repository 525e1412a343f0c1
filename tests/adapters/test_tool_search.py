"""Adapters with more tools than fit: a few and `find_tools`, through the real SDKs; what was found is offered next."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel
from tests.adapters.provider import Provider
from tests.scenarios.server_kit import served
from tests.scenarios.test_tool_search import TOOLS

import clicket.sync
from clicket import Runtime, Settings
from clicket.adapters import anthropic, openai
from clicket.adapters.pydantic_ai import ClicketToolset
from clicket.errors import UsageError

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

FIND = {"query": "create an issue in Linear", "limit": 2}
QUESTION: Any = {"role": "user", "content": "question"}


def runtime() -> Runtime:
    return Runtime(TOOLS, settings=Settings(store="memory://"))


def names(params: list[Any]) -> list[str]:
    return [param.get("function", param)["name"] for param in params]


async def test_anthropic(provider: Provider, claude: AsyncAnthropic) -> None:
    from anthropic.types import ToolParam

    async with runtime() as rt:
        params = await anthropic.tool_params(rt, "t", max_offered=5)
        assert names(params) == ["find_tools"]
        suited = names(await anthropic.tool_params(rt, "t", max_offered=5, message="what is the price of a bitcoin?"))
        assert "coinbase_get_spot_price" in suited
        assert len(suited) <= 6
        provider.answers = [{"content": [{"type": "tool_use", "id": "u1", "name": "find_tools", "input": FIND}]}]
        message = await claude.messages.create(model="m", max_tokens=9, messages=[QUESTION], tools=params)
        (result,) = await anthropic.run(rt, message, "t")
        read = json.loads(str(result["content"]))["found"]
        params = await anthropic.tool_params(rt, "t", max_offered=5)
        assert set(names(params)) == {*read, "find_tools"}, "the result has the names that the model knows"
        assert any(name.startswith("linear_create_issue_") for name in read)
        assert len(await anthropic.tool_params(rt, "t")) == 1_000
        assert len(await anthropic.tool_params(rt, "t", max_offered=1_000)) == 1_000
        deferred = await anthropic.tool_params(rt, "t", max_offered=5, defer_loading=True)
        TypeAdapter(list[ToolParam]).validate_python(deferred)
        assert len(deferred) == 1_001
        assert {param["name"] for param in deferred if not param.get("defer_loading")} == set(names(params))


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_openai(provider: Provider, gpt: AsyncOpenAI, api: Any) -> None:
    async with runtime() as rt:
        params: list[Any] = await openai.tool_params(rt, "t", api=api, max_offered=3)
        assert names(params) == ["find_tools"]
        call = {"id": "c1", "type": "function", "function": {"name": "find_tools", "arguments": json.dumps(FIND)}}
        await openai.run(rt, {"id": "r1", "choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]}, "t")
        params = await openai.tool_params(rt, "t", api=api, max_offered=3)
    assert any(name.startswith("linear_create_issue_") for name in names(params))
    assert len(params) == 3


async def test_pydantic_ai() -> None:
    seen: list[list[str]] = []
    parts: list[Any] = [[ToolCallPart("find_tools", FIND)], [TextPart("done")]]

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append([tool.name for tool in info.function_tools])
        return ModelResponse(parts=parts.pop(0))

    async with runtime() as rt:
        result = await Agent(FunctionModel(answer), toolsets=[ClicketToolset(rt, "t", max_offered=4)]).run("go")
    assert result.output == "done"
    assert seen[0] == ["find_tools"]
    assert any(name.startswith("linear_create_issue_") for name in seen[1])
    with pytest.raises(UsageError, match="max_offered"):
        ClicketToolset(rt, "t", max_offered=0)


def test_a_blocking_runtime() -> None:
    with clicket.sync.Runtime(TOOLS, settings=Settings(store="memory://")) as rt:
        assert names(anthropic.tool_params(rt, "t", max_offered=5)) == ["find_tools"]
        assert rt.call("find_tools", FIND, thread="t").output["found"][0] == "linear.create_issue"
        assert len(anthropic.tool_params(rt, "t", max_offered=5)) == 3


async def test_what_the_hub_hides_leaves_the_offer() -> None:
    async with runtime() as rt:
        await rt.call("find_tools", FIND, thread="t")
        await rt.hub("t").set("linear.create_issue", "unavailable", "gone")
        offered = names(await openai.tool_params(rt, "t", max_offered=5))
        assert not any(name.startswith("linear_create_issue") for name in offered)
        assert "linear.create_issue" not in (await rt.call("find_tools", FIND, thread="t")).output["found"]


async def test_over_http() -> None:
    from clicket.client import Client

    async with served(tools=TOOLS[:200]) as it, Client(it.url) as client:
        assert names(await openai.tool_params(client, "t", max_offered=3)) == ["find_tools"]
        await client.call("find_tools", FIND, thread="t")
        assert len(await openai.tool_params(client, "t", max_offered=3)) == 3
