"""Models of pydantic-ai as models of agents: with its own test models, and with its models of vendors against the fake provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel as OfflineModel
from pydantic_ai.profiles import ModelProfile
from tests.adapters.provider import Provider
from tests.kit.pictures import png
from tests.unit.models.kit import (
    KEY,
    READ,
    STREAMED,
    Make,
    adds_up,
    anthropic_model,
    ask,
    asks,
    assistant,
    openai_model,
    result,
    says,
    user,
)

from clicket import tool
from clicket.adapters.pydantic_ai import PydanticAIModel
from clicket.agents import ReActAgent
from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.model.chat import ChatMessage, ChatRequest, Delta, ToolUse, Usage
from clicket.model.files import FileRef
from clicket.model.names import wire_names
from clicket.models import as_model, model_of
from clicket.ports import StreamingModel
from clicket.testing import memory_runtime

WIRE = wire_names(["files.read"])["files.read"]
"""No vendor accepts a dot in a name."""


@tool(name="files.read")
async def read(path: str) -> str:
    if path == "gone":
        raise ValueError("no such file")
    return f"{path}: 3 lines"


def through(make: Make, provider: Provider) -> PydanticAIModel:
    """A vendor's model of pydantic-ai on the fake provider."""
    if make is openai_model:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return PydanticAIModel(
            OpenAIChatModel("gpt-x", provider=OpenAIProvider(base_url=f"{provider.url}/v1", api_key=KEY)),
            settings={"max_retries": 0},
        )
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return PydanticAIModel(
        AnthropicModel("claude-x", provider=AnthropicProvider(base_url=provider.url, api_key=KEY)),
        settings={"max_retries": 0},
    )


VENDORS = pytest.mark.parametrize("make", [openai_model, anthropic_model], ids=["openai", "anthropic"])


async def test_an_agent_calls_tools_of_the_offline_model() -> None:
    async with memory_runtime([read]) as rt:
        model = as_model(OfflineModel())
        r = await ReActAgent(rt, model, name="a").run("Read it")
        assert (r.stopped, r.calls, json.loads(r.text)) == ("finished", 1, {WIRE: "a: 3 lines"})
        assert isinstance(model, StreamingModel)
        streamed = ReActAgent(rt, model, name="b").stream("Read it")
        deltas = [event.data for event in [each async for each in streamed] if event.type == "delta"]
    assert deltas[:2] == [
        {"kind": "name", "text": "files.read", "use": 0},
        {"kind": "arguments", "text": '{"path": "a"}', "use": 0},
    ]
    assert json.loads("".join(each["text"] for each in deltas[2:])) == {WIRE: "a: 3 lines"}


Asked = list[tuple[list[ModelMessage], AgentInfo]]


def scripted(*answers: list[Any], **options: Any) -> tuple[Any, Asked]:
    """A model that returns these parts in turn, and what it was asked."""
    left, asked = list(answers), Asked()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append((messages, info))
        return ModelResponse(parts=left.pop(0), finish_reason=options.get("finish_reason"))

    return PydanticAIModel(FunctionModel(answer, profile=options.get("profile"))), asked


async def test_the_model_reads_results_failures_and_its_own_thoughts() -> None:
    thought = ThinkingPart("which?", signature="s", provider_name="function", provider_details={"k": [1]})
    first = [
        TextPart("Let me"),
        thought,
        TextPart(" see."),
        ToolCallPart(WIRE, {"path": "tea"}, "c1"),
        ToolCallPart(WIRE, '{"path": "gone"}', "c2"),
        ToolCallPart(WIRE, '{"path": ', "c3"),
    ]
    model, asked = scripted(first, [TextPart("3")])
    async with memory_runtime([read]) as rt:
        r = await ReActAgent(rt, model, system="Be brief.", max_answer_tokens=99).run("How long?")
    assert (r.text, r.calls, r.messages[1].thought) == ("3", 3, "which?")
    (begun, info), (messages, _) = asked
    assert [part.part_kind for part in begun[0].parts] == ["system-prompt", "user-prompt"]
    assert info.model_settings == {"max_tokens": 99}
    [offered] = info.function_tools
    assert (offered.name, offered.parameters_json_schema["required"]) == (WIRE, ["path"])
    said, results = messages[1], messages[2]
    assert said.parts[:4] == [TextPart("Let me"), thought, TextPart(" see."), ToolCallPart(WIRE, {"path": "tea"}, "c1")]
    assert said.parts[5].args == {"invalid_arguments": '{"path": '}
    answers = [part for part in results.parts if isinstance(part, ToolReturnPart)]
    assert [(one.tool_call_id, one.outcome) for one in answers] == [
        ("c1", "success"),
        ("c2", "failed"),
        ("c3", "failed"),
    ]
    assert answers[0].content == "tea: 3 lines"


async def test_a_message_that_was_changed_since_goes_back_without_the_kept_parts() -> None:
    model, asked = scripted([ThinkingPart("hm"), TextPart("Yes.")], [TextPart("b")])
    reply = await model.chat(asks(user("Go")))
    assert reply.vendor is not None
    changed = assistant(text="No.", vendor=reply.vendor)
    await model.chat(asks(user("Go"), changed, user("And?")))
    said, last = asked[1][0][1:]
    assert said.parts == [TextPart("No.")]
    assert isinstance(last.parts[0], UserPromptPart)


async def test_a_plain_reply_keeps_nothing_for_the_vendor() -> None:
    model, _ = scripted([TextPart("a"), ToolCallPart(WIRE, {"path": "x"}, "c1")])
    assert (await model.chat(asks())).vendor is None


async def test_pieces_of_a_stream_are_passed_on_as_they_come() -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield {0: DeltaThinkingPart(content="which?")}
        yield {1: DeltaToolCall(name=WIRE, json_args='{"path"', tool_call_id="c1")}
        yield {1: DeltaToolCall(json_args=': "tea"}')}
        yield {2: DeltaToolCall(name="add", tool_call_id="c2")}

    deltas: list[Delta] = []
    model = PydanticAIModel(FunctionModel(stream_function=answer))
    reply = await model.stream(asks(), deltas.append)
    adds_up(deltas, reply)
    assert deltas[:4] == [
        Delta("thought", "which?"),
        Delta("name", "files.read"),
        Delta("arguments", '{"path"'),
        Delta("arguments", ': "tea"}'),
    ]
    assert [(use.id, use.name, use.arguments) for use in reply.uses] == [
        ("c1", "files.read", '{"path": "tea"}'),
        ("c2", "add", "{}"),
    ]


@pytest.mark.parametrize(("native", "mode"), [(True, "native"), (False, "prompted")])
async def test_a_structured_answer_is_asked_for_as_the_model_can(native: bool, mode: str) -> None:
    model, asked = scripted([TextPart('{"a": 1}')], profile=ModelProfile(supports_json_schema_output=native))
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert (await model.chat(asks(tools=(), schema=schema, schema_name="sum"))).text == '{"a": 1}'
    form = asked[0][1].model_request_parameters
    assert (form.output_mode, form.output_object.name, form.output_object.json_schema) == (mode, "sum", schema)
    assert ("JSON" in (asked[0][1].instructions or "")) is not native


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
async def test_a_choice_of_tools_is_passed_on(choice: Any) -> None:
    model, asked = scripted([TextPart("a")])
    await model.chat(asks(tool_choice=choice))
    assert (asked[0][1].model_settings or {}).get("tool_choice", "auto") == choice


@pytest.mark.parametrize(("reason", "ended"), [("length", "length"), ("content_filter", "refusal"), (None, "stop")])
async def test_the_reply_says_why_it_ended(reason: Any, ended: str) -> None:
    model, _ = scripted([TextPart("a")], finish_reason=reason)
    assert (await model.chat(asks())).ended == ended


# Through the vendors' protocols.


@VENDORS
@STREAMED
async def test_a_conversation_with_a_vendor(provider: Provider, make: Make, streamed: bool) -> None:
    name = "prompt" if make is openai_model else "input"
    usage = {
        f"{name}_tokens": 5,
        "completion_tokens" if make is openai_model else "output_tokens": 1,
        "total_tokens": 6,
    }
    provider.answers = [
        says(make, "Let me see.", ("c1", WIRE, '{"path": "x"}')),
        {**says(make, "3 lines."), "usage": usage},
    ]
    model = through(make, provider)
    asked = asks(user("How long?"), tools=(READ,))
    reply = await ask(model, asked, streamed=streamed)
    assert (reply.text, reply.uses) == (
        "Let me see.",
        (ToolUse(id="c1", name="files.read", arguments=reply.uses[0].arguments),),
    )
    assert json.loads(reply.uses[0].arguments) == {"path": "x"}
    said = assistant(("c1", "files.read", reply.uses[0].arguments), text=reply.text, vendor=reply.vendor)
    then = await ask(model, asks(*asked.messages, said, result("c1", "x: 3 lines"), tools=(READ,)), streamed=streamed)
    assert (then.text, then.model) == ("3 lines.", "m")
    assert (then.usage.input_tokens, then.usage.output_tokens) == (5, 1)


@STREAMED
async def test_signed_thoughts_go_back_to_anthropic(provider: Provider, streamed: bool) -> None:
    thought = {"type": "thinking", "thinking": "Which file?", "signature": "sig"}
    call = {"type": "tool_use", "id": "c1", "name": WIRE, "input": {"path": "x"}}
    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 1}
    provider.answers = [{"content": [thought, call], "usage": usage}, says(anthropic_model, "3 lines.")]
    async with memory_runtime([read]) as rt:
        agent = ReActAgent(rt, through(anthropic_model, provider), name="a")
        if streamed:
            events = [event async for event in agent.stream("How long?")]
            assert [event.data["text"] for event in events if event.type == "message"][-1] == "3 lines."
        else:
            r = await agent.run("How long?")
            assert (r.text, r.messages[1].thought) == ("3 lines.", "Which file?")
            assert r.usage == Usage(input_tokens=116, output_tokens=2, cached_tokens=100, cache_write_tokens=5)
    sent = provider.requests[1]["messages"][1]["content"]
    assert [block for block in sent if block["type"] == "thinking"] == [thought]


@STREAMED
async def test_reasoning_items_go_back_to_openai(provider: Provider, streamed: bool) -> None:
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": WIRE, "arguments": '{"path": "x"}'}
    said = {"type": "message", "id": "m_1", "role": "assistant"}
    text = {"type": "output_text", "text": "3 lines.", "annotations": []}
    provider.answers = [{"output": [thought, call]}, {"output": [{**said, "content": [text]}]}]
    inner = OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(base_url=f"{provider.url}/v1", api_key=KEY))
    model = PydanticAIModel(inner)
    asked = asks(user("How long?"), tools=(READ,))
    reply = await ask(model, asked, streamed=streamed)
    uses = tuple((use.id, use.name, use.arguments) for use in reply.uses)
    await model.chat(asks(*asked.messages, assistant(*uses, vendor=reply.vendor), result("c1", "3"), tools=(READ,)))
    kept = [item for item in provider.requests[1]["input"] if item.get("type") == "reasoning"]
    assert [(item["id"], item["encrypted_content"]) for item in kept] == [("rs_1", "gAAA")]


FAILURES: list[tuple[dict[str, Any], type[Exception], float | None]] = [
    ({"status": 429, "headers": {"retry-after": "7"}}, RetryableError, 7.0),
    ({"status": 503}, RetryableError, None),
    ({"status": 529}, RetryableError, None),
    ({"status": 401, "body": {"error": {"message": f"Incorrect key {KEY}"}}}, UsageError, None),
    ({"status": 400, "body": {"error": {"message": f"wrong, {KEY}"}}}, ClicketError, None),
]


@VENDORS
@STREAMED
@pytest.mark.parametrize(("answer", "error", "wait"), FAILURES, ids=lambda one: str(one)[:14])
async def test_failures_are_ours(
    provider: Provider, make: Make, streamed: bool, answer: Any, error: Any, wait: float | None
) -> None:
    provider.answers = [answer] * 5
    with pytest.raises(error) as raised:
        await ask(through(make, provider), asks(), streamed=streamed)
    assert KEY not in str(raised.value)
    assert raised.value.__cause__ is None
    assert getattr(raised.value, "retry_after", None) == wait
    assert isinstance(raised.value, RetryableError) is (error is RetryableError)


async def test_a_server_that_is_not_there_can_be_asked_again() -> None:
    nowhere = Provider()
    nowhere.url = "http://127.0.0.1:9"
    with pytest.raises(RetryableError):
        await through(openai_model, nowhere).chat(asks())


def test_a_model_is_made_from_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = model_of("pydantic-ai:openai-chat:gpt-x")
    assert (type(model), model.name) == (PydanticAIModel, "openai:gpt-x")
    options = {"kind": "pydantic-ai", "model": "openai-chat:gpt-x", "max_tokens": 9, "options": {"temperature": 0.0}}
    assert model_of(options).name == "openai:gpt-x"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: model_of("pydantic-ai:nobody:gpt-x"), "cannot make the model 'nobody:gpt-x'"),
        (lambda: model_of({"kind": "pydantic-ai", "model": "test", "prices": {}}), "no option 'prices'"),
        (lambda: PydanticAIModel(3), "cannot make the model 3"),
    ],
)
def test_a_model_that_cannot_be_made_says_why(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()


async def test_images_are_sent_if_the_model_is_said_to_see() -> None:
    photo = FileRef(artifact="sha256-" + "1" * 64, media_type="image/png", size=69)
    use = ToolUse(id="c1", name="files.read")
    messages = (
        ChatMessage(role="user", content=f"see\n{photo.line}\nhere", files=(photo,)),
        ChatMessage(role="assistant", uses=(use, ToolUse(id="c2", name="files.read"))),
        ChatMessage(role="tool", use_id="c1", content=photo.line, files=(photo,)),
        ChatMessage(role="tool", use_id="c2", content="3"),
    )
    model, asked = scripted([TextPart("Seen.")])
    assert not model.sees_images
    await model.chat(ChatRequest(messages=messages, files={photo.artifact: png()}))
    begun, _, results = asked[0][0]
    assert begun.parts[0].content == [f"see\n{photo.line}", BinaryContent(png(), media_type="image/png"), "\nhere"]
    assert [part.part_kind for part in results.parts] == ["tool-return", "tool-return", "user-prompt"]
    assert results.parts[2].content == [photo.line, BinaryContent(png(), media_type="image/png")]
