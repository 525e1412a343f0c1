"""Answers of a schema from both vendors, beside tools, over their real SDKs."""

from __future__ import annotations

from typing import Any, Literal

import pydantic
import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI
from tests.adapters.provider import Provider
from tests.unit.models.kit import ADD, KEY, STREAMED, VENDORS, Make, anthropic_model, asks, openai_model, user

from clicket.agents.output import Output
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolUse
from clicket.models import AnthropicModel, OpenAIModel, SchemaTools, ScriptModel, as_model
from clicket.testing import RecordingModel, ScriptedModel


class Line(pydantic.BaseModel):
    item: str = pydantic.Field(min_length=2)
    qty: int = 1


class Invoice(pydantic.BaseModel):
    lines: list[Line]
    kind: Literal["draft", "final"] = "draft"


class Tree(pydantic.BaseModel):
    name: str
    below: list[Tree] = []


INVOICE, TREE = Output.of(Invoice), Output.of(Tree)


def for_answer(output: Output[Any], *messages: ChatMessage, **options: Any) -> ChatRequest:
    return asks(*messages, tools=(ADD,), schema=output.schema, schema_name=output.name, **options)


def says(make: Make, text: str = "", *uses: dict[str, Any]) -> dict[str, Any]:
    if make is openai_model:
        calls = [
            {"id": use["id"], "type": "function", "function": {"name": use["name"], "arguments": use["json"]}}
            for use in uses
        ]
        return {"content": text or None, **({"tool_calls": calls} if calls else {})}
    blocks = [{"type": "tool_use", "id": use["id"], "name": use["name"], "input": use["input"]} for use in uses]
    return {"content": [*([{"type": "text", "text": text}] if text else []), *blocks]}


ADDING = {"id": "c1", "name": "add", "json": '{"a": 1}', "input": {"a": 1}}


async def ask(model: Any, request: ChatRequest, streamed: bool) -> ChatReply:
    reply: ChatReply = await (model.stream(request, lambda delta: None) if streamed else model.chat(request))
    return reply


@VENDORS
@STREAMED
async def test_a_schema_goes_with_tools_and_the_model_may_use_both(
    provider: Provider, make: Make, streamed: bool
) -> None:
    text = '{"lines": [{"item": "tea", "qty": null}], "kind": "final"}'
    provider.answers = [says(make, "", ADDING), says(make, text)]
    model = make(provider)
    first = await ask(model, for_answer(INVOICE), streamed)
    assert [use.name for use in first.uses] == ["add"]
    called = ChatMessage(role="assistant", uses=(ToolUse(id="c1", name="add", arguments='{"a": 1}'),))
    result = ChatMessage(role="tool", content="2", use_id="c1")
    second = await ask(model, for_answer(INVOICE, user("Add."), called, result), streamed)
    assert INVOICE.typed(INVOICE.read(second.text).value) == Invoice(lines=[Line(item="tea")], kind="final")
    for body in provider.requests:
        assert len(body["tools"]) == 1
        assert "tool_choice" not in body
        if make is openai_model:
            form = body["response_format"]["json_schema"]
            assert (form["name"], form["strict"]) == ("Invoice", True)
            assert form["schema"]["required"] == ["lines", "kind"]
        else:
            assert body["output_config"]["format"]["schema"]["required"] == ["lines"]


async def test_openai_is_only_told_of_a_schema_that_strict_mode_cannot_say(provider: Provider) -> None:
    counts = Output.of(dict[str, int])
    provider.answers = [says(openai_model, '{"a": 1}')]
    reply = await openai_model(provider).chat(for_answer(counts))
    assert counts.read(reply.text).value == {"a": 1}
    form = provider.requests[0]["response_format"]["json_schema"]
    assert (form["strict"], form["schema"]) == (False, counts.schema)


async def test_openai_takes_a_refused_schema_without_strict_mode_and_it_is_remembered(provider: Provider) -> None:
    provider.refuses = lambda body: (
        "Invalid schema for response_format 'Invoice': too many levels"
        if body["response_format"]["json_schema"]["strict"]
        else None
    )
    provider.answers = [says(openai_model, '{"lines": []}')] * 2
    model = openai_model(provider)
    for _ in range(2):
        assert INVOICE.read((await model.chat(for_answer(INVOICE))).text).value == {"lines": []}
    assert [body["response_format"]["json_schema"]["strict"] for body in provider.requests] == [True, False, False]


@STREAMED
async def test_anthropic_answers_by_a_tool_if_it_cannot_be_bound_to_the_schema(
    provider: Provider, streamed: bool
) -> None:
    answer = {"id": "t1", "name": "Tree", "input": {"name": "a", "below": [{"name": "b"}]}}
    provider.answers = [
        says(anthropic_model, "", ADDING),
        says(anthropic_model, "So:", answer),
        says(anthropic_model, "{}"),
    ]
    model = anthropic_model(provider)
    assert [use.name for use in (await ask(model, for_answer(TREE), streamed)).uses] == ["add"]
    reply = await ask(model, for_answer(TREE), streamed)
    assert TREE.typed(TREE.read(reply.text).value) == Tree(name="a", below=[Tree(name="b")])
    assert reply.uses == ()
    for body in provider.requests:
        assert "output_config" not in body
        assert [tool["name"] for tool in body["tools"]] == ["add", "Tree"]
        assert body["tool_choice"] == {"type": "any"}
    await ask(model, for_answer(INVOICE), streamed)
    assert "output_config" in provider.requests[-1], "other schemas are sent as before"


async def test_a_model_that_thinks_is_not_forced_to_answer_by_a_tool(provider: Provider) -> None:
    provider.answers = [says(anthropic_model, '{"name": "a"}')]
    model = anthropic_model(provider, options={"thinking": {"type": "adaptive"}})
    assert TREE.read((await model.chat(for_answer(TREE))).text).value == {"name": "a"}
    assert "tool_choice" not in provider.requests[0]


async def test_a_server_without_schemas_is_told_of_it_in_the_prompt_and_may_use_tools(provider: Provider) -> None:
    provider.refuses = lambda body: "response_format is not supported" if "response_format" in body else None
    provider.answers = [says(openai_model, "", ADDING)]
    await openai_model(provider).chat(for_answer(INVOICE))
    told = provider.requests[-1]["messages"][-1]["content"]
    assert "When you need no more tools, answer with one JSON object that fits this JSON Schema" in told


def test_how_models_are_asked_for_a_typed_answer(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert OpenAIModel("m", api_key=KEY).typed_by == "schema"
    assert OpenAIModel("m", api_key=KEY, base_url="https://eu.api.openai.com/v1").typed_by == "schema"
    assert openai_model(provider).typed_by == "tool"
    assert openai_model(provider, tools="schema").typed_by == "schema"
    assert (
        OpenAIModel("m", client=AsyncOpenAI(api_key=KEY, base_url="https://openai.com.example/v1")).typed_by == "tool"
    )
    azure = AsyncAzureOpenAI(api_key=KEY, azure_endpoint="https://x.openai.azure.com", api_version="2025-01-01")
    assert OpenAIModel("m", client=azure).typed_by == "schema"
    assert AnthropicModel("m", api_key=KEY).typed_by == "schema"
    scripted = ScriptedModel(["a"], typed_by="tool")
    assert (scripted.typed_by, ScriptedModel(["a"]).typed_by) == ("tool", "text")
    assert RecordingModel(scripted, tmp_path / "r").typed_by == "tool"
    assert SchemaTools(AnthropicModel("m", api_key=KEY)).typed_by == "schema"
    assert SchemaTools(scripted).typed_by == "text"
    assert getattr(as_model(lambda text: text), "typed_by", "text") == "text"
    assert not hasattr(ScriptModel, "typed_by")
