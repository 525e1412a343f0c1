"""A pydantic-ai agent with clicket's tools; no model, no network."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel as OfflineModel
from tests.adapters.kit import PNG, RUNS, add, draw, nothing, read, runtime

import clicket.sync
from clicket import QueueFull
from clicket.adapters.pydantic_ai import ClicketToolset
from clicket.errors import UsageError


def scripted(*answers: list[Any]) -> tuple[FunctionModel, list[AgentInfo]]:
    """A model that returns these parts in turn, and records the requests."""
    left, infos = list(answers), []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        infos.append(info)
        return ModelResponse(parts=left.pop(0))

    return FunctionModel(answer), infos


def returns(result: Any) -> list[ToolReturnPart]:
    return [part for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]


async def test_an_agent_calls_every_tool() -> None:
    async with runtime(tools=[add, read, nothing]) as rt:
        agent = Agent(OfflineModel(), toolsets=[ClicketToolset(rt, "t1", id="clicket")])
        result = await agent.run("go")
        records = (await rt.history(thread="t1")).items
    assert {name for name, _ in RUNS} == {"add", "files.read", "nothing"}
    assert {part.tool_name.split("_")[0] for part in returns(result)} == {"add", "files", "nothing"}
    assert all(record.state == "completed" for record in records)


async def test_the_model_gets_failures_and_the_run_continues() -> None:
    calls = [
        ToolCallPart("add", '{"a": 1}', tool_call_id="c1"),
        ToolCallPart("add", '{"a": ', tool_call_id="c2"),
        ToolCallPart("add", {"a": "x"}, tool_call_id="c3"),
        ToolCallPart("fail", None, tool_call_id="c4"),
        ToolCallPart("add", '"{\\"a\\": 4}"', tool_call_id="c5"),
        ToolCallPart("slow", "", tool_call_id="c6"),
    ]
    model, infos = scripted(calls, calls[1:3], [TextPart("done")])
    async with runtime() as rt:
        result = await Agent(model, toolsets=[ClicketToolset(rt, "t1")]).run("go")
        records = (await rt.history(thread="t1")).items
    returned = {part.tool_call_id: part for part in returns(result)[:6]}
    assert result.output == "done"
    assert len(infos) == 3
    assert [returned[f"c{n}"].outcome for n in range(1, 7)] == [
        "success",
        "failed",
        "failed",
        "failed",
        "success",
        "failed",
    ]
    assert returned["c1"].content == "2"
    assert str(returned["c2"].content).startswith("invalid_input: ")
    assert str(returned["c3"].content).startswith("invalid_input: /a")
    assert returned["c4"].content == "tool_error: ValueError: out of paper"
    assert returned["c5"].content == "5"
    assert str(returned["c6"].content).startswith("timeout: ")
    assert len(records) == 8, "the second step makes new calls"


async def test_tools_are_listed_at_every_step() -> None:
    available = ["add", "files.read"]

    class Hub:
        async def available(self) -> list[str]:
            return available

    async with runtime() as rt:

        class Door:
            tools, call = rt.tools, rt.call

            def hub(self, thread: str) -> Hub:
                return Hub()

        model, infos = scripted([ToolCallPart("add", {"a": 1})], [TextPart("done")])
        toolset = ClicketToolset(Door(), "t1")
        agent = Agent(model, toolsets=[toolset])

        original = Door.call

        async def call(*args: Any, **kwargs: Any) -> Any:
            available.remove("files.read")
            return await original(*args, **kwargs)

        Door.call = staticmethod(call)  # type: ignore[assignment,method-assign]
        await agent.run("go")
    names = [[t.name.split("_")[0] for t in info.function_tools] for info in infos]
    assert names == [["add", "files"], ["add"]]
    assert infos[0].function_tools[0].parameters_json_schema["type"] == "object"


async def test_the_model_gets_refusals_of_the_runtime() -> None:
    async with runtime() as rt:

        class Door:
            tools = rt.tools

            async def call(self, *_: Any, **__: Any) -> Any:
                raise QueueFull("full")

        model, _ = scripted([ToolCallPart("add", {"a": 1})], [TextPart("done")])
        result = await Agent(model, toolsets=[ClicketToolset(Door(), "t1")]).run("go")
    assert [part.content for part in returns(result)] == ["queue_full: full"]


def test_the_blocking_runtime() -> None:
    model, _ = scripted([ToolCallPart("nothing")], [TextPart("done")])
    rt = clicket.sync.Runtime(tools=[nothing], store="memory://")
    agent = Agent(model, toolsets=[ClicketToolset(rt, "t1")])
    with pytest.raises(UsageError, match="not open"):
        asyncio.run(agent.run("go"))  # run_sync leaves its loop open
    with rt:
        result = asyncio.run(agent.run("go"))
        assert [part.content for part in returns(result)] == ["null"]
        assert len(rt.history(thread="t1").items) == 1


async def test_images_of_a_result_are_shown() -> None:
    seen: list[Any] = []

    async def model(messages: list[Any], info: Any) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("draw", {}, "call_1")])
        seen.extend(messages[-1].parts)
        return ModelResponse(parts=[TextPart("A square.")])

    async with runtime(tools=[draw]) as rt:
        agent = Agent(FunctionModel(model), toolsets=[ClicketToolset(rt, "t1")])
        assert (await agent.run("Draw.")).output == "A square."
    text, picture = seen[0].content
    assert text.startswith("a square")
    assert (picture.media_type, picture.data) == ("image/png", PNG)
