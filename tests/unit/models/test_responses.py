"""OpenAI's Responses API as a model: what it is sent, what is read of its items, and the reasoning that goes back to it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.adapters.provider import Provider, Responses
from tests.kit.pictures import png
from tests.models_kit.vendor_rules import accepted_by_responses
from tests.unit.models.kit import (
    ADD,
    KEY,
    READ,
    STREAMED,
    ask,
    asks,
    assistant,
    responses_model,
    result,
    says,
    sse,
    user,
)

from clicket import tool
from clicket.agents import ReActAgent
from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.model.chat import ChatMessage, ChatReply, ToolUse, Usage
from clicket.model.files import FileRef
from clicket.model.names import wire_names
from clicket.models import OpenAIModel, model_of
from clicket.testing import memory_runtime

WIRE = wire_names(["files.read"])["files.read"]
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Which?"}, {"type": "summary_text", "text": "That one."}],
    "encrypted_content": "gAAA",
}
USAGE = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "output_tokens_details": {"reasoning_tokens": 15},
}


def message(text: str, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part], **more}


def call(id: str = "c1", name: str = WIRE, arguments: str = '{"path": "x"}') -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": arguments}


def said(reply: ChatReply) -> ChatMessage:
    return ChatMessage(role="assistant", content=reply.text, uses=reply.uses, vendor=reply.vendor)


@STREAMED
async def test_a_step_with_reasoning_and_the_next_one(provider: Provider, streamed: bool) -> None:
    provider.answers = [
        {"output": [THOUGHT, message("Let me see."), call()], "usage": USAGE},
        {"output": [message("3 lines.")]},
    ]
    model = responses_model(provider, prices={"input": 1.0, "output": 2.0, "cached": 0.1, "cache_write": 1.5})
    asked = (ChatMessage(role="system", content="Be brief."), user("How long?"))
    reply = await ask(model, asks(*asked, max_tokens=99), streamed=streamed)
    assert (reply.text, reply.thought) == ("Let me see.", "Which?\n\nThat one.")
    assert reply.uses == (ToolUse(id="c1", name="files.read", arguments='{"path": "x"}'),)
    assert (reply.ended, reply.id, reply.model) == ("stop", "resp_1", "m")
    cost = pytest.approx((10 * 1.0 + 60 * 0.1 + 30 * 1.5 + 20 * 2.0) / 1e6)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost) == (100, 20, cost)
    assert (reply.usage.cached_tokens, reply.usage.cache_write_tokens, reply.usage.reasoning_tokens) == (60, 30, 15)

    then = asks(*asked, said(reply), result("c1", "no such file", failed=True))
    last = await ask(model, then, streamed=streamed)
    assert (last.text, last.vendor) == ("3 lines.", None)
    first, second = provider.requests
    for request in (first, second):
        accepted_by_responses(request)
        assert (request["store"], request["include"]) == (False, ["reasoning.encrypted_content"])
    assert first["input"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How long?"}]
    assert first["max_output_tokens"] == 99
    assert [(each["name"], each["strict"]) for each in first["tools"]] == [("add", False), (WIRE, False)]
    assert second["input"][2:] == [
        THOUGHT,
        {**message("Let me see."), "status": "completed"},
        call(),
        {"type": "function_call_output", "call_id": "c1", "output": "Error: no such file"},
    ]


@tool(name="files.read")
async def read(path: str) -> str:
    return f"{path}: 3 lines"


@STREAMED
async def test_an_agent_keeps_its_reasoning_from_step_to_step(provider: Provider, streamed: bool) -> None:
    provider.answers = [
        {"output": [THOUGHT, call(), call("c2", arguments='{"path": "y"}')], "usage": USAGE},
        {"output": [{**THOUGHT, "id": "rs_2"}, call("c3")], "usage": USAGE},
        {"output": [message("9 lines.")], "usage": USAGE},
        {"output": [message("Yes.")], "usage": USAGE},
    ]
    async with memory_runtime([read]) as rt:
        agent = ReActAgent(rt, responses_model(provider), name="a")
        for text in ("How long are they?", "Sure?"):
            if streamed:
                await agent.begin(text)
                assert [event async for event in agent.events()][-1].data["text"]
            else:
                r = await agent.run(text)
        if not streamed:
            assert (r.text, r.usage.reasoning_tokens) == ("Yes.", 15)
    for before, after in zip(provider.requests, provider.requests[1:], strict=False):
        accepted_by_responses(after)
        assert after["input"][: len(before["input"])] == before["input"]  # the vendor's prompt cache applies
    kinds = [item.get("type", item.get("role")) for item in provider.requests[-1]["input"]]
    assert kinds == [
        "user", "reasoning", "function_call", "function_call", "function_call_output", "function_call_output",
        "reasoning", "function_call", "function_call_output", "assistant", "user",
    ]  # fmt: skip


async def test_a_message_that_was_changed_since_goes_back_without_its_reasoning(provider: Provider) -> None:
    provider.answers = [{"output": [THOUGHT, message("Yes.")]}, says(responses_model, "b")]
    model = responses_model(provider)
    reply = await model.chat(asks(user("Go")))
    await model.chat(asks(user("Go"), assistant(text="No.", vendor=reply.vendor), user("And?")))
    assert provider.requests[1]["input"][1] == {"role": "assistant", "content": "No."}


async def test_the_phase_of_a_message_goes_back(provider: Provider) -> None:
    provider.answers = [{"output": [message("Looking.", phase="commentary"), call()]}, says(responses_model, "b")]
    model = responses_model(provider)
    reply = await model.chat(asks(user("Go")))
    await model.chat(asks(user("Go"), said(reply), result("c1", "3")))
    assert provider.requests[1]["input"][1]["phase"] == "commentary"


async def test_reasoning_that_is_not_encrypted_goes_back_only_if_the_vendor_stores_it(provider: Provider) -> None:
    bare = {key: value for key, value in THOUGHT.items() if key != "encrypted_content"}
    for store, kinds in ((False, ["user", "function_call"]), (True, ["user", "reasoning", "function_call"])):
        provider.answers = [{"output": [bare, call()]}, says(responses_model, "b")]
        model = responses_model(provider, options={"store": store})
        reply = await model.chat(asks(user("Go")))
        await model.chat(asks(user("Go"), said(reply), result("c1", "3")))
        sent = [item.get("type", item.get("role")) for item in provider.requests[-1]["input"]]
        assert sent[:-1] == kinds


async def test_a_model_without_reasoning_is_not_asked_for_it_again(provider: Provider) -> None:
    provider.refuses = lambda body: (
        "Encrypted content is not supported with this model." if body.get("include") else None
    )
    provider.answers = [says(responses_model, "a")] * 2
    model = responses_model(provider)
    assert (await model.chat(asks())).text == (await model.chat(asks())).text == "a"
    assert ["include" in one for one in provider.requests] == [True, False, False]


@pytest.mark.parametrize("knows", ["json_schema", "json_object", "nothing"])
async def test_a_structured_answer(provider: Provider, knows: str) -> None:
    def refuses(body: dict[str, Any]) -> str | None:
        form = (body.get("text") or {}).get("format", {}).get("type")
        return None if form in (None, knows) else "Invalid parameter: 'text.format' of this type is not supported"

    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    provider.refuses = refuses
    provider.answers = [says(responses_model, '{"a": 1}')] * 2
    model = responses_model(provider, options={"text": {"verbosity": "low"}})
    for _ in range(2):
        assert (await model.chat(asks(schema=schema, tools=()))).text == '{"a": 1}'
    last = provider.requests[-1]
    accepted_by_responses(last)
    assert last["text"]["verbosity"] == "low"
    assert last["text"].get("format", {}).get("type", "nothing") == knows
    assert ("JSON Schema" in last["input"][-1]["content"]) is (knows != "json_schema")
    assert len(provider.requests) == {"json_schema": 2, "json_object": 3, "nothing": 4}[knows]


async def test_tools_that_the_server_refuses_are_described_in_the_prompt(provider: Provider) -> None:
    provider.refuses = lambda body: "tools are not supported" if body.get("tools") else None
    provider.answers = [says(responses_model, '{"tool": "add", "arguments": {"a": 1}}')]
    reply = await responses_model(provider).chat(asks(tools=(ADD,)))
    assert [(use.name, json.loads(use.arguments)) for use in reply.uses] == [("add", {"a": 1})]


@STREAMED
@pytest.mark.parametrize(
    ("given", "ended"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "refusal"),
        ({"output": [message("", content=[{"type": "refusal", "refusal": "I may not."}])]}, "refusal"),
    ],
    ids=["length", "filter", "refusal"],
)
async def test_why_an_answer_ended(provider: Provider, streamed: bool, given: dict[str, Any], ended: str) -> None:
    provider.answers = [{"output": [message("I may not.")], **given}]
    reply = await ask(responses_model(provider), asks(), streamed=streamed)
    assert (reply.ended, reply.text) == (ended, "I may not.")


@STREAMED
@pytest.mark.parametrize(
    ("code", "error"), [("server_error", RetryableError), ("rate_limit_exceeded", RetryableError), ("invalid_prompt", ClicketError)]
)  # fmt: skip
async def test_a_failed_response(provider: Provider, streamed: bool, code: str, error: Any) -> None:
    failed = {"status": "failed", "error": {"code": code, "message": f"no, {KEY}"}}
    provider.answers = [{"output": [], **failed}]
    with pytest.raises(error) as raised:
        await ask(responses_model(provider), asks(), streamed=streamed)
    assert isinstance(raised.value, RetryableError) is (error is RetryableError)
    assert KEY not in str(raised.value)


async def test_an_error_in_place_of_an_event(provider: Provider) -> None:
    event = {"type": "error", "code": "server_error", "message": "not now", "param": None, "sequence_number": 1}
    provider.answers = [sse(event, named=True)]
    with pytest.raises(RetryableError, match="not now"):
        await ask(responses_model(provider), asks(), streamed=True)


async def test_a_stream_that_is_cut_is_no_answer(provider: Provider) -> None:
    events = [
        event for _, event in Responses.events(Responses.answer({"output": [THOUGHT, message("Let me see."), call()]}))
    ]
    for end in range(1, len(events)):
        provider.answers = [sse(*events[:end], named=True)]
        with pytest.raises(RetryableError):
            await ask(responses_model(provider), asks(), streamed=True)


async def test_a_server_that_sends_items_only_at_the_end(provider: Provider) -> None:
    done = {"type": "response.completed", "response": Responses.answer({"output": [THOUGHT, message("So."), call()]})}
    provider.answers = [sse(done, named=True)]
    reply = await ask(responses_model(provider), asks(), streamed=True)
    assert (reply.text, reply.thought, [use.name for use in reply.uses]) == (
        "So.",
        "Which?\n\nThat one.",
        ["files.read"],
    )
    assert reply.vendor is not None


async def test_choices_and_own_tools_of_the_vendor(provider: Provider) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "x"}}
    own = {"type": "function", "name": "own", "parameters": {"type": "object"}, "strict": False}
    provider.answers = [{"output": [search, message("So.")]}, says(responses_model, "b")]
    model = responses_model(provider, options={"tools": [own], "include": ["web_search_call.results"]})
    reply = await model.chat(asks(user("Go"), tools=(READ,), tool_choice="required"))
    await model.chat(asks(user("Go"), said(reply), user("And?"), tools=(READ,)))
    first, second = provider.requests
    assert [each["name"] for each in first["tools"]] == ["own", WIRE]
    assert first["tool_choice"] == "required"
    assert first["include"] == ["web_search_call.results", "reasoning.encrypted_content"]
    assert second["input"][1] == search


@pytest.mark.parametrize("output", [None, "x", {}, [None, 3, "x", {}, {"type": None}, {"type": "message"}]])
@STREAMED
async def test_items_that_are_none(provider: Provider, output: Any, streamed: bool) -> None:
    whole = {"id": "r", "status": "completed", "output": output}
    event = {"type": "response.completed", "response": whole}
    provider.answers = [sse(event) if streamed else {"status": 200, "body": whole}]
    try:
        reply = await ask(responses_model(provider), asks(), streamed=streamed)
    except ClicketError:
        return
    assert reply.text == ""


@STREAMED
async def test_files_of_messages_and_results(provider: Provider, streamed: bool) -> None:
    photo = FileRef(artifact="sha256-" + "1" * 64, media_type="image/png", size=69, name="photo.png")
    paper = FileRef(artifact="sha256-" + "2" * 64, media_type="application/pdf", size=8, name="paper.pdf")
    files = {photo.artifact: png(), paper.artifact: b"%PDF-1.7"}
    given = msgspec.structs.replace(result("c1", f"read:\n{paper.line}"), files=(paper,))
    asked = msgspec.structs.replace(user(f"see\n{photo.line}"), files=(photo,))
    request = asks(asked, assistant(("c1", "files.read", "{}")), given, files=files)
    provider.answers = [{"output": [message("Seen.")]}]
    assert (await ask(responses_model(provider), request, streamed=streamed)).text == "Seen."
    (sent,) = provider.requests
    accepted_by_responses(sent)
    said, _, answered = sent["input"]
    assert [part["type"] for part in said["content"]] == ["input_text", "input_image"]
    assert said["content"][1]["image_url"].startswith("data:image/png;base64,iVBORw")
    assert [part["type"] for part in answered["output"]] == ["input_text", "input_file"]
    assert answered["output"][1]["filename"] == "paper.pdf"


def test_the_api_is_chosen_by_name() -> None:
    given = {"kind": "openai", "model": "m", "base_url": "http://localhost:1/v1", "api": "responses"}
    assert model_of(given).name == "openai:m"
    with pytest.raises(UsageError, match="'chat' or 'responses'"):
        OpenAIModel("m", base_url="http://localhost:1/v1", api="assistants")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no option 'api'"):
        model_of({"kind": "anthropic", "model": "m", "api": "chat"})


def test_usage_that_was_stored_before_is_read() -> None:
    import msgspec

    assert msgspec.json.decode(b'{"input_tokens":1,"output_tokens":2}', type=Usage) == Usage(
        input_tokens=1, output_tokens=2
    )
    assert msgspec.json.encode(Usage(input_tokens=1)) == b'{"input_tokens":1,"output_tokens":0}'
