"""Tool calls by structured output, for models without tools: on request, or when a server refuses tools."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.provider import Provider
from tests.unit.models.kit import (
    ADD,
    READ,
    STREAMED,
    VENDORS,
    Make,
    ask,
    asks,
    assistant,
    openai_model,
    result,
    says,
    user,
)

from clicket.errors import ClicketError, UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolOffer, ToolUse
from clicket.models import SchemaTools, as_model, model_of
from clicket.testing import ScriptedModel

CALL = '{"tool": "add", "arguments": {"a": 1}}'


async def answered(text: str, request: ChatRequest | None = None, *, streamed: bool = False) -> ChatReply:
    return await ask(SchemaTools(ScriptedModel([text])), request or asks(), streamed=streamed)


@STREAMED
async def test_calls_and_answers_are_read(streamed: bool) -> None:
    reply = await answered(CALL, streamed=streamed)
    assert (reply.text, reply.uses) == ("", (ToolUse(id="call_0", name="add", arguments='{"a": 1}'),))
    reply = await answered('{"answer": "Two."}', streamed=streamed)
    assert (reply.text, reply.uses) == ("Two.", ())
    assert (await answered(f"```json\n{CALL}\n```", streamed=streamed)).uses
    later = asks(user("Go"), assistant(("call_0", "add", "{}")), result("call_0", "1"))
    assert (await answered(CALL, later, streamed=streamed)).uses[0].id == "call_1"


@pytest.mark.parametrize(
    "text",
    [
        "Two.",
        "",
        "{",
        "[]",
        "3",
        f"I would say {CALL}",
        '{"tool": 3, "arguments": {}}',
        '{"a": 1}',
        "[" * 9_999,
        '{"tool": "add", "arguments": {}, "why": 1}',
    ],
)
async def test_what_is_no_call_is_text(text: str) -> None:
    for streamed in (False, True):
        reply = await answered(text, streamed=streamed)
        assert (reply.text, reply.uses) == (text, ())


KEYS = st.sampled_from(["tool", "arguments", "answer", "x"])
VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)
)


@given(VALUES)
async def test_any_json_is_a_call_or_text(value: Any) -> None:
    reply = await answered(json.dumps(value), streamed=True)
    assert len(reply.uses) <= 1
    assert not (reply.text and reply.uses)


async def test_the_schema_has_a_branch_for_each_tool_and_one_for_the_answer() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    shared = ToolOffer(
        name="draw",
        input_schema={"type": "object", "properties": {"at": {"$ref": "#/$defs/Point"}}, "$defs": {"Point": point}},
    )
    other = ToolOffer(name="move", input_schema={**shared.input_schema, "$defs": {"Point": {"type": "string"}}})
    model = ScriptedModel([CALL] * 3)
    tools = SchemaTools(model)
    await tools.chat(asks(tools=(ADD, shared, other)))
    schema = jsonschema_rs.validator_for(model.requests[0].schema)
    for good in (
        {"tool": "add", "arguments": {"a": 1}},
        {"tool": "draw", "arguments": {"at": {"x": 1}}},
        {"tool": "move", "arguments": {"at": "left"}},
        {"answer": "x"},
    ):
        assert schema.is_valid(good)
    for bad in (
        {"tool": "add", "arguments": {}},
        {"tool": "draw", "arguments": {"at": "left"}},
        {"tool": "rm", "arguments": {}},
        {"answer": 3},
        {"tool": "add", "arguments": {"a": 1}, "answer": "x"},
    ):
        assert not schema.is_valid(bad)
    await tools.chat(asks(tool_choice="required"))
    assert not jsonschema_rs.validator_for(model.requests[1].schema).is_valid({"answer": "x"})
    await tools.chat(asks(tool_choice="none"))
    assert model.requests[2].schema is None


async def test_the_conversation_is_written_as_text() -> None:
    model = ScriptedModel([CALL])
    spoken = (
        ChatMessage(role="system", content="Be brief."),
        user("Go"),
        assistant(("c1", "add", '{"a": 1}'), ("c2", "files.read", "{")),
        result("c1", "2"),
        result("c2", "no JSON", failed=True),
        user("And?"),
        assistant(text="Two."),
        user("Sure?"),
    )
    await SchemaTools(model).chat(asks(*spoken))
    sent = model.requests[0]
    assert [one.role for one in sent.messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert sent.tools == ()
    assert all(not one.uses for one in sent.messages)
    assert sent.messages[0].content.startswith("Be brief.\n\nYou have these tools")
    assert sent.messages[2].content.splitlines()[0] == CALL
    assert sent.messages[3].content == "Result of add:\n2\n\nError of files.read:\nno JSON\n\nAnd?"
    assert sent.messages[4].content == '{"answer": "Two."}'


async def test_an_answer_of_a_given_form() -> None:
    wanted = {"type": "object", "properties": {"n": {"type": "integer"}}}
    reply = await answered('{"answer": {"n": 2}}', asks(schema=wanted))
    assert json.loads(reply.text) == {"n": 2}


async def test_without_tools_it_is_the_model_itself() -> None:
    inner = ScriptedModel([CALL] * 2)
    for streamed in (False, True):
        reply = await ask(SchemaTools(inner), asks(tools=()), streamed=streamed)
        assert (reply.text, reply.uses) == (CALL, ())
    assert inner.requests[0] == asks(tools=())


async def test_any_function_can_have_tools() -> None:
    reply = await ask(SchemaTools(as_model(lambda prompt: CALL)), asks())
    assert reply.uses[0].name == "add"


REFUSALS = [
    "registry.ollama.ai/library/gemma:latest does not support tools",
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "tools param requires --jinja flag",
    "Unrecognized request argument supplied: tools",
    "tools: Extra inputs are not permitted",
]


@VENDORS
@STREAMED
@pytest.mark.parametrize("words", REFUSALS)
async def test_a_server_that_refuses_tools_gets_a_schema(
    provider: Provider, make: Make, streamed: bool, words: str
) -> None:
    provider.refuses = lambda body: words if "tools" in body else None
    provider.answers = [says(make, CALL), says(make, '{"answer": "Two."}')]
    model = make(provider)
    reply = await ask(model, asks(), streamed=streamed)
    assert reply.uses == (ToolUse(id="call_0", name="add", arguments='{"a": 1}'),)
    message = ChatMessage(role="assistant", uses=reply.uses)
    before = len(provider.requests)
    reply = await ask(model, asks(user("Go"), message, result("call_0", "2")), streamed=streamed)
    assert reply.text == "Two."
    assert len(provider.requests) == before + 1  # a refused feature is not tried again
    assert "tools" in provider.requests[0]
    assert "tools" not in provider.requests[-1]
    with pytest.raises(ClicketError):
        await make(provider, tools="native").chat(asks())


async def test_a_server_may_know_neither_tools_nor_schemas(provider: Provider) -> None:
    unknown = ["tools"]
    provider.refuses = lambda body: next((f"unknown parameter {one}" for one in unknown if one in body), None)
    provider.answers = [says(openai_model, CALL)] * 2
    model = openai_model(provider)
    assert (await model.chat(asks())).uses
    unknown.append("response_format")
    assert (await model.chat(asks())).uses
    assert "JSON Schema" in provider.requests[-1]["messages"][-1]["content"]


@VENDORS
async def test_a_refusal_that_has_other_reasons_stays_one(provider: Provider, make: Make) -> None:
    for words in ("tools.0.name: String should match pattern", "'tool_calls' must be followed by tool messages", "no"):
        provider.refuses = lambda body, words=words: words  # type: ignore[misc]
        before = len(provider.requests)
        with pytest.raises(ClicketError, match="refused the request"):
            await make(provider).chat(asks())
        assert len(provider.requests) == before + 1


async def test_a_failure_by_schema_does_not_blame_the_tools_for_good(provider: Provider) -> None:
    model = openai_model(provider)
    provider.answers = [
        {"status": 400, "body": ""},
        {"status": 503, "body": {}},
        says(openai_model, "", ("c", "add", "{}")),
    ]
    with pytest.raises(ClicketError, match="503"):
        await model.chat(asks())
    assert (await model.chat(asks())).uses[0].id == "c"


async def test_a_script_is_streamed(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    named = {
        "kind": "openai",
        "model": "m",
        "base_url": f"{provider.url}/v1",
        "tools": "schema",
        "prices": {"input": 1},
    }
    provider.answers = [{**says(openai_model, CALL), "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 1}}]
    reply = await model_of(named).chat(asks(tools=(READ, ADD)))
    assert reply.uses[0].name == "add"
    assert reply.usage.cost == 1.0
    assert provider.requests[0]["response_format"]["json_schema"]["strict"] is False
    with pytest.raises(UsageError, match="tools must be"):
        model_of({**named, "tools": "maybe"})
    with pytest.raises(UsageError, match="prices"):
        model_of({**named, "prices": 3})
