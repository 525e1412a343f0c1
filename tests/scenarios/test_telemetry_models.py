"""Requests to models as spans and metrics, by the real OpenTelemetry SDK: names, parents, errors, tokens, and content only if asked for."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from tests.kit.tools import add, echo
from tests.scenarios.agent_kit import Gate, Says, Streams, asks
from tests.scenarios.kit import make
from tests.scenarios.otel_kit import Collector, facts
from tests.scenarios.test_telemetry_export import export, receiver

from clicket import RetryableError, tool
from clicket.agents import PlanExecuteAgent, ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage
from clicket.search import deep_search
from clicket.testing import ScriptedModel

SECRET = "sk-proj-" + "A1b2C3d4E5f6G7h8" * 3


class Vendor(Says):
    name = "anthropic:claude-x"


def spans(collector: Collector, operation: str) -> list[Any]:
    return [span for span in collector.spans if facts(span).get("gen_ai.operation.name") == operation]


def points(collector: Collector, name: str) -> list[Any]:
    data = collector.reader.get_metrics_data()
    return [
        point
        for resource in (() if data is None else data.resource_metrics)
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in metric.data.data_points
    ]


async def test_a_turn_its_requests_and_its_tool_calls() -> None:
    collector = Collector()
    replies = [
        ChatReply(
            uses=(ToolUse(id="u1", name="add", arguments='{"a": 1, "b": 2}'),),
            usage=Usage(input_tokens=100, output_tokens=10, cached_tokens=40, cache_write_tokens=50),
            id="msg_1", model="claude-x-20260101",
        ),
        ChatReply(text="three", usage=Usage(input_tokens=120, output_tokens=5, cost=0.5), id="msg_2", model="claude-x-20260101"),
    ]  # fmt: skip
    async with collector.watch(make([add])) as rt:
        agent = ReActAgent(rt, Vendor(lambda request: replies.pop(0)), name="helper", max_answer_tokens=77)
        await agent.run("one and two?", thread="t")
    (turn,) = spans(collector, "invoke_agent")
    first, second = spans(collector, "chat")
    (call,) = spans(collector, "execute_tool")
    assert first.name == second.name == "chat claude-x"
    assert first.kind is SpanKind.CLIENT
    for each in (first, second, call):
        assert each.parent.span_id == turn.context.span_id
        assert facts(each)["gen_ai.agent.name"] == "helper"
        assert facts(each)["gen_ai.conversation.id"] == "t"
    about = facts(first)
    assert about["gen_ai.provider.name"] == "anthropic"
    assert about["gen_ai.request.model"] == "claude-x"
    assert about["gen_ai.request.max_tokens"] == 77
    assert about["gen_ai.response.id"] == "msg_1"
    assert about["gen_ai.response.model"] == "claude-x-20260101"
    assert about["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert about["gen_ai.usage.input_tokens"] == 100
    assert about["gen_ai.usage.output_tokens"] == 10
    assert about["gen_ai.usage.cache_read.input_tokens"] == facts(turn)["gen_ai.usage.cache_read.input_tokens"] == 40
    assert about["gen_ai.usage.cache_creation.input_tokens"] == 50
    assert facts(turn)["gen_ai.usage.cache_creation.input_tokens"] == 50
    assert facts(second)["gen_ai.response.finish_reasons"] == ("stop",)
    assert facts(second)["clicket.cost"] == 0.5
    assert not [name for name in about if "messages" in name or "instructions" in name], "content only if asked for"
    assert first.end_time <= call.start_time <= call.end_time <= second.start_time
    (took,) = points(collector, "gen_ai.client.operation.duration")
    assert took.count == 2
    assert dict(took.attributes) == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-x",
        "gen_ai.response.model": "claude-x-20260101",
    }  # fmt: skip
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum for point in points(collector, "gen_ai.client.token.usage")
    }
    assert tokens == {"input": 220, "output": 15}


async def test_a_call_of_the_program_has_no_agent() -> None:
    collector = Collector()
    async with collector.watch(make([add])) as rt:
        await rt.call("add", {"a": 1, "b": 2})
        await rt.call("add", {"a": 1, "b": 2}, id="react.1.1.1")
    assert not [span for span in spans(collector, "execute_tool") if "gen_ai.agent.name" in facts(span)]
    assert not spans(collector, "chat")


async def test_each_attempt_has_a_span_and_errors_have_few_names() -> None:
    collector = Collector()
    failures: list[Any] = [
        RetryableError("busy", retry_after=0.0), ConnectionError("127.0.0.1:4711"), ValueError(f"no {SECRET}")
    ]  # fmt: skip

    def answer(request: ChatRequest) -> ChatReply:
        raise failures.pop(0)

    async with collector.watch(make()) as rt:
        with pytest.raises(ValueError, match="no"):
            await ReActAgent(rt, Vendor(answer), retry_delay=0.0).run("x")
    made = spans(collector, "chat")
    assert [facts(span)["error.type"] for span in made] == ["RetryableError", "ConnectionError", "ValueError"]
    assert all(span.status.status_code is StatusCode.ERROR for span in made)
    assert SECRET not in repr([(span.status.description, dict(span.attributes), span.events) for span in made])
    errors = {
        point.attributes.get("error.type"): point.count
        for point in points(collector, "gen_ai.client.operation.duration")
    }
    assert errors == {"RetryableError": 1, "ConnectionError": 1, "ValueError": 1}


async def test_a_stopped_request_is_cancelled() -> None:
    collector, gate = Collector(), Gate()

    async def answer(request: ChatRequest) -> ChatReply:
        await gate()
        return ChatReply(text="late")

    async with collector.watch(make()) as rt:
        agent = ReActAgent(rt, Vendor(answer))
        work = asyncio.create_task(agent.run("x"))
        await gate.reached.wait()
        await agent.stop()
        assert (await work).stopped == "cancelled"
    (span,) = spans(collector, "chat")
    assert facts(span)["error.type"] == "cancelled"


async def test_spans_within_a_request_are_its_children() -> None:
    collector = Collector()

    def answer(request: ChatRequest) -> ChatReply:
        with collector.tracer.start_as_current_span("POST"):
            return ChatReply(text="done")

    async with collector.watch(make()) as rt:
        await ReActAgent(rt, Vendor(answer)).run("x")
    (chat,) = spans(collector, "chat")
    inside = next(span for span in collector.spans if span.name == "POST")
    assert inside.parent is not None
    assert inside.parent.span_id == chat.context.span_id


async def test_a_streamed_reply_says_when_it_began() -> None:
    collector = Collector()
    async with collector.watch(make()) as rt:
        agent = ReActAgent(rt, Streams(lambda request: ChatReply(text="one two")))
        assert [event.type async for event in agent.stream("x")][-1] == "final"
    (chat,) = spans(collector, "chat")
    assert facts(chat)["gen_ai.request.stream"] is True
    assert facts(chat)["gen_ai.response.time_to_first_chunk"] >= 0


async def test_plans_have_spans_of_their_own() -> None:
    collector = Collector()
    plan = [("plan", {"command": "create", "title": "p", "steps": ["add them"]})]
    executor = ScriptedModel([[("add", {"a": 1, "b": 2})], "three"], name="small")
    async with collector.watch(make([add])) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel([plan, "all done"], name="big"), executor=executor, name="planner")
        assert (await agent.run("go", thread="t")).text == "all done"
    (turn,) = spans(collector, "invoke_agent")
    plans, chats = spans(collector, "plan"), spans(collector, "chat")
    assert [span.name for span in plans] == ["plan planner"] * 2
    assert all(span.kind is SpanKind.INTERNAL and span.parent.span_id == turn.context.span_id for span in plans)
    parents = {facts(span)["gen_ai.request.model"]: set[int]() for span in chats}
    for span in chats:
        parents[facts(span)["gen_ai.request.model"]].add(span.parent.span_id)
    assert parents == {"big": {span.context.span_id for span in plans}, "small": {turn.context.span_id}}


async def test_models_of_a_search_are_seen_too() -> None:
    from clicket.search import Index

    collector = Collector()
    model = Says(lambda request: '{"queries": ["rain"]}')

    @tool
    async def research(question: str) -> str:
        """Search."""
        with Index.open(":memory:") as index:
            index.add([{"id": "1", "title": "Rain", "text": "Rain falls from clouds."}])
            return (await deep_search(question, engine=index, model=model, max_loop=1)).answer

    async with collector.watch(make([research])) as rt:
        assert (await rt.call("research", {"question": "Why does rain fall?"})).success
    assert model.asked
    (call,) = spans(collector, "execute_tool")
    made = spans(collector, "chat")
    assert len(made) == model.asked
    assert {span.context.trace_id for span in made} == {call.context.trace_id}
    assert facts(made[0])["gen_ai.output.type"] == "json"


# Content.


async def test_content_is_written_only_if_asked_for_and_masked() -> None:
    @tool(sensitive=["password"])
    async def log_in(password: str) -> str:
        """Log in."""
        return f"in, key {SECRET}"

    def answer(request: ChatRequest) -> Any:
        if any(message.uses for message in request.messages):
            return ChatReply(text="hunter22-hunter22 is in", thought="easy")
        return asks(("log_in", '{"password": "hunter22-hunter22"}'))

    for content in (False, True):
        collector = Collector()
        async with collector.watch(make([log_in]), content=content) as rt:
            await ReActAgent(rt, Vendor(answer), system="Be brief.").run("please log in", thread="t")
        first, second = spans(collector, "chat")
        shown = repr([dict(span.attributes) for span in collector.spans])
        assert SECRET not in shown
        assert "hunter22" not in shown
        assert ("please log in" in shown) is content
        if content:
            assert json.loads(facts(first)["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
            asked = json.loads(facts(second)["gen_ai.input.messages"])
            assert [message["role"] for message in asked] == ["user", "assistant", "tool"]
            assert asked[0]["parts"] == [{"type": "text", "content": "please log in"}]
            assert asked[1]["parts"][0]["type"] == "tool_call"
            assert asked[2]["parts"][0]["type"] == "tool_call_response"
            (answered,) = json.loads(facts(second)["gen_ai.output.messages"])
            assert answered["finish_reason"] == "stop"
            assert [part["type"] for part in answered["parts"]] == ["reasoning", "text"]
            assert json.loads(facts(first)["gen_ai.tool.definitions"]) == [{"type": "function", "name": "log_in"}]


async def test_long_content_is_bounded() -> None:
    collector = Collector()
    async with collector.watch(make([echo]), content=True) as rt:
        agent = ReActAgent(rt, Says(lambda request: "y" * 100_000))
        for _ in range(3):
            await agent.run("x" * 200_000, thread="t")
    for span in spans(collector, "chat"):
        assert len(facts(span)["gen_ai.input.messages"]) < 100_000
        assert len(facts(span)["gen_ai.output.messages"]) < 20_000


async def test_an_unsampled_request_costs_no_content() -> None:
    collector = Collector.blind()
    async with collector.watch(make(), content=True) as rt:
        assert (await ReActAgent(rt, Says(lambda request: "yes")).run("x")).text == "yes"
    assert collector.spans == []


# A collector as a process would see it.

PROGRAM = """
import asyncio
from clicket import Runtime, tool
from clicket.agents import PlanExecuteAgent
from clicket.testing import ScriptedModel

@tool
async def add(a: int, b: int) -> int:
    return a + b

async def main():
    plan = [("plan", {"command": "create", "title": "p", "steps": ["add"]})]
    async with Runtime([add], store="memory://") as rt:
        model = ScriptedModel([plan, [("add", {"a": 1, "b": 2})], "three", "done"], name="openai:gpt-x")
        print((await PlanExecuteAgent(rt, model, name="planner").run("go")).text)

asyncio.run(main())
"""


def test_spans_and_metrics_of_models_reach_a_collector(tmp_path: Path) -> None:
    with receiver() as (taken, url):
        done = export(PROGRAM, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    names = sorted(span.name for span in taken.spans)
    assert names == ["chat gpt-x"] * 4 + ["execute_tool add", "invoke_agent planner", "plan planner", "plan planner"]
    call = next(span for span in taken.spans if span.name == "execute_tool add")
    assert {a.key: a.value.string_value for a in call.attributes}["gen_ai.agent.name"] == "planner"
    metrics = {metric.name for metric in taken.metrics if metric.name.startswith("gen_ai.client")}
    assert metrics == {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"}
