"""Chat models of LangChain as models of agents: they are offered tools, their calls run, and they read the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from tests.kit.pictures import png
from tests.unit.models.kit import adds_up

from clicket import tool
from clicket.agents import ReActAgent
from clicket.errors import RetryableError, UsageError
from clicket.model.chat import ChatMessage, ChatRequest, Delta, ToolOffer, ToolUse, Usage
from clicket.model.files import FileRef
from clicket.model.names import wire_names
from clicket.models import SchemaTools, as_model
from clicket.ports import StreamingModel
from clicket.testing import memory_runtime

USED = UsageMetadata(
    input_tokens=10, output_tokens=2, total_tokens=12, input_token_details={"cache_read": 4, "cache_creation": 3}
)
WIRE = wire_names(["shop.find"])["shop.find"]
"""No vendor accepts a dot in a name."""


class Model(GenericFakeChatModel):
    """Keeps what it is asked, and the options that it is asked with."""

    asked: list[Any]
    options: list[dict[str, Any]]

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=list(tools), **options)

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self.asked.append(messages)
        self.options.append(options)
        return super()._generate(messages, *args, **options)


def answering(*messages: AIMessage | str) -> Model:
    return Model(messages=iter(messages), asked=[], options=[])


def calling(args: Any, id: str = "c1") -> AIMessage:
    return AIMessage("Let me see.", tool_calls=[{"id": id, "name": WIRE, "args": args}], usage_metadata=USED)


@tool(name="shop.find")
async def find(item: str) -> str:
    if item == "gold":
        raise ValueError("no such item")
    return f"{item}: 3 in stock"


async def test_an_agent_calls_tools_and_reads_their_results() -> None:
    model = answering(calling({"item": "tea"}), calling({"item": "gold"}, "c2"), AIMessage("3", usage_metadata=USED))
    async with memory_runtime([find]) as rt:
        result = await ReActAgent(rt, as_model(model), system="Be brief.", max_answer_tokens=99).run("How much tea?")
    assert (result.text, result.calls) == ("3", 2)
    assert result.usage == Usage(input_tokens=30, output_tokens=6, cached_tokens=12, cache_write_tokens=9)
    [offered] = model.options[0]["tools"]
    assert (offered["function"]["name"], offered["function"]["parameters"]["required"]) == (WIRE, ["item"])
    assert model.options[0]["max_tokens"] == 99
    system, question, said, answer, _, failed = model.asked[2]
    assert [one.type for one in (system, question, said, answer, failed)] == ["system", "human", "ai", "tool", "tool"]
    assert said.tool_calls == [{"id": "c1", "name": WIRE, "args": {"item": "tea"}, "type": "tool_call"}]
    assert (answer.content, answer.tool_call_id, answer.status) == ("tea: 3 in stock", "c1", "success")
    assert (failed.tool_call_id, failed.status) == ("c2", "error")


async def test_arguments_that_are_no_json_are_refused_and_the_model_reads_why() -> None:
    bad = AIMessage("", invalid_tool_calls=[{"id": "c1", "name": WIRE, "args": '{"item": ', "error": "cut"}])
    model = answering(bad, "I see.")
    async with memory_runtime([find]) as rt:
        result = await ReActAgent(rt, as_model(model)).run("How much tea?")
    assert (result.text, result.calls) == ("I see.", 1)
    said, answer = model.asked[1][-2:]
    assert (said.tool_calls[0]["args"], answer.status) == ({"invalid_arguments": '{"item": '}, "error")


class Streaming(Model):
    def _stream(self, *args: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
        pieces: list[dict[str, Any]] = [
            {"content": [{"type": "thinking", "thinking": "tea?", "index": 0}]},
            {"content": [{"type": "text", "text": "Let me ", "index": 1}]},
            {"content": [{"type": "text", "text": "see.", "index": 1}]},
            {"tool_call_chunks": [{"id": "c1", "name": WIRE, "args": "", "index": 2}]},
            {"tool_call_chunks": [{"id": None, "name": None, "args": '{"item"', "index": 2}]},
            {"tool_call_chunks": [{"id": None, "name": None, "args": ': "tea"}', "index": 2}]},
            {"usage_metadata": USED},
        ]
        for piece in pieces:
            yield ChatGenerationChunk(message=AIMessageChunk(**{"content": "", **piece}))


def request(**more: Any) -> ChatRequest:
    offer = ToolOffer(name="shop.find", input_schema=find.input_schema)
    return ChatRequest(messages=(ChatMessage(role="user", content="How much tea?"),), tools=(offer,), **more)


async def test_the_pieces_of_an_answer_are_streamed() -> None:
    model, told = as_model(Streaming(messages=iter(()), asked=[], options=[])), list[Delta]()
    assert isinstance(model, StreamingModel)
    reply = await model.stream(request(), told.append)
    assert [(one.kind, one.text, one.use) for one in told] == [
        ("thought", "tea?", 0),
        ("text", "Let me ", 0),
        ("text", "see.", 0),
        ("name", "shop.find", 0),
        ("arguments", '{"item"', 0),
        ("arguments", ': "tea"}', 0),
    ]
    assert (reply.thought, reply.text) == ("tea?", "Let me see.")
    assert reply.uses == (ToolUse(id="c1", name="shop.find", arguments='{"item": "tea"}'),)
    assert reply.usage == Usage(input_tokens=10, output_tokens=2, cached_tokens=4, cache_write_tokens=3)


async def test_blocks_of_the_vendor_come_back_to_it_without_the_calls() -> None:
    thought = {"type": "thinking", "thinking": "tea?", "signature": "s"}
    called = {"type": "tool_use", "id": "c1", "name": WIRE, "input": {"item": "tea"}}
    first = AIMessage([thought, called], tool_calls=[{"id": "c1", "name": WIRE, "args": {"item": "tea"}}])
    model = answering(first, "3")
    async with memory_runtime([find]) as rt:
        await ReActAgent(rt, as_model(model)).run("How much tea?")
    assert model.asked[1][1].content == [thought]


async def test_what_stands_beside_the_content_comes_back_to_the_vendor() -> None:
    beside = {"signatures": {"c1": "s"}, "tool_calls": [{"id": "c1"}], "reasoning_content": "hm"}
    called = [{"id": "c1", "name": WIRE, "args": {"item": "tea"}}]
    about = {"model_provider": "google_genai", "finish_reason": "STOP"}
    first = AIMessage("", tool_calls=called, additional_kwargs=beside, response_metadata=about)
    model = answering(first, "3")
    async with memory_runtime([find]) as rt:
        await ReActAgent(rt, as_model(model)).run("How much tea?")
    said, answer = model.asked[1][1:3]
    assert said.additional_kwargs == {"signatures": {"c1": "s"}}
    assert said.response_metadata == {"model_provider": "google_genai"}
    assert answer.name == WIRE


async def test_a_structured_answer_is_asked_for_in_the_prompt() -> None:
    model = answering('{"a": 1}')
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    await as_model(model).chat(request(schema=schema))
    assert model.asked[0][-1].content.endswith('{"properties": {"a": {"type": "integer"}}, "type": "object"}')


async def test_tools_stay_offered_while_the_conversation_has_calls() -> None:
    """Anthropic refuses results of tools in a request without tools."""
    model = answering("3")
    use = ToolUse(id="c1", name="shop.find", arguments='{"item": "tea"}')
    past = (ChatMessage(role="assistant", uses=(use,)), ChatMessage(role="tool", use_id="c1", content="3"))
    asked = request(tool_choice="none")
    await as_model(model).chat(msgspec.structs.replace(asked, messages=(*asked.messages, *past)))
    assert "tools" in model.options[0]


async def test_calls_without_an_index_are_told_apart() -> None:
    class Whole(Model):
        def _stream(self, *args: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
            for number in range(3):
                call = {"id": f"c{number}", "name": WIRE, "args": f'{{"item": "{number}"}}', "index": None}
                yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[call]))

    told = list[Delta]()
    model = as_model(Whole(messages=iter(()), asked=[], options=[]))
    assert isinstance(model, StreamingModel)
    adds_up(told, await model.stream(request(), told.append))
    assert [one.use for one in told] == [0, 0, 1, 1, 2, 2]


class RateLimitError(Exception):
    status_code = 429
    retry_after = 3.0


class APIConnectionError(Exception):
    """As the vendors' SDKs name it; it has no status."""


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("raised", "ours"),
    [
        (RateLimitError("slow down"), RetryableError),
        (APIConnectionError("no route"), RetryableError),
        (TimeoutError(), RetryableError),
        (KeyError("a mistake"), KeyError),
    ],
)
async def test_failures_that_a_retry_can_help_are_retryable(raised: Exception, ours: Any, streamed: bool) -> None:
    class Failing(Model):
        def _generate(self, *args: Any, **options: Any) -> ChatResult:
            raise raised

        def _stream(self, *args: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
            yield ChatGenerationChunk(message=AIMessageChunk("Let"))
            raise raised

    model: Any = as_model(Failing(messages=iter(()), asked=[], options=[]))
    with pytest.raises(ours) as failed:
        await (model.stream(request(), list[Delta]().append) if streamed else model.chat(request()))
    if ours is RetryableError:
        assert failed.value.retry_after == getattr(raised, "retry_after", None)


@pytest.mark.parametrize("choice", ["required", "none"])
async def test_a_choice_of_tools_is_passed_on(choice: Any) -> None:
    model = answering("x")
    await as_model(model).chat(request(tool_choice=choice))
    assert model.options[0].get("tool_choice") == {"required": "any", "none": None}[choice]
    assert ("tools" in model.options[0]) is (choice == "required")


@pytest.mark.parametrize(
    ("reason", "ended"),
    [
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "refusal"),
        ("SAFETY", "refusal"),
        ("stop", "stop"),
    ],
)
async def test_the_reply_says_why_it_ended(reason: str, ended: str) -> None:
    message = AIMessage("x", response_metadata={"finish_reason": reason, "model_name": "m-1"}, id="r1")
    reply = await as_model(answering(message)).chat(request())
    assert (reply.ended, reply.model, reply.id) == (ended, "m-1", "r1")


def text_to_text(prompt: str) -> str:
    return "answer"


@pytest.mark.parametrize(
    "given", [FakeListChatModel(responses=["x"]), answering("x").with_retry(), text_to_text], ids=["fake", "chain", "function"]
)  # fmt: skip
async def test_a_model_that_cannot_be_offered_tools_says_so_and_what_helps(given: Any) -> None:
    model = as_model(given)
    with pytest.raises(UsageError, match=r"cannot be offered tools.*SchemaTools\(as_model\(model\)\)"):
        await model.chat(request())
    assert (await model.chat(ChatRequest(messages=request().messages))).text in ("x", "answer")
    async with memory_runtime([find]) as rt:
        with pytest.raises(UsageError, match="cannot be offered tools"):
            await ReActAgent(rt, model).run("How much tea?")
    if given is text_to_text:
        assert (await SchemaTools(model).chat(request())).text == "answer"


async def test_images_of_a_message_and_of_results_that_follow_them() -> None:
    photo = FileRef(artifact="sha256-" + "1" * 64, media_type="image/png", size=69)
    messages = (
        ChatMessage(role="user", content=f"see\n{photo.line}", files=(photo,)),
        ChatMessage(role="assistant", uses=(ToolUse(id="c1", name="shop.find"), ToolUse(id="c2", name="shop.find"))),
        ChatMessage(role="tool", use_id="c1", content=photo.line, files=(photo,)),
        ChatMessage(role="tool", use_id="c2", content="3"),
    )
    answers = answering("Seen.")
    model: Any = as_model(answers)
    assert not model.sees_images
    await model.chat(ChatRequest(messages=messages, files={photo.artifact: png()}))
    asked, _, first, second, beside = answers.asked[0]
    assert [part["type"] for part in asked.content] == ["text", "image_url"]
    assert (first.content, second.content) == (photo.line, "3")
    assert [part["type"] for part in beside.content] == ["text", "image_url"]
    assert beside.content[1]["image_url"]["url"].startswith("data:image/png;base64,iVBORw")
