"""Our models against a real language model: replies are complete, counted and within their limits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clicket.errors import ClicketError, RetryableError
from clicket.model.chat import ChatMessage, ChatRequest, Delta, ToolOffer
from clicket.models import OpenAIModel, SchemaTools

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]  # a busy machine makes it many times slower

HELLO = ChatRequest(
    messages=(
        ChatMessage(role="system", content="You are a helpful assistant."),
        ChatMessage(role="user", content="Say hello to Anna in one short sentence."),
    ),
    max_tokens=24,
)


@pytest.fixture
async def model(address: str) -> AsyncIterator[OpenAIModel]:
    """Greedy decoding, so that it repeats its answers."""
    made = OpenAIModel("smollm2", base_url=f"{address}/v1", timeout=300, options={"temperature": 0})
    yield made
    await made.close()


@pytest.fixture
async def lively(address: str, seed: int) -> AsyncIterator[OpenAIModel]:
    options = {"temperature": 1.2, "seed": seed}
    made = OpenAIModel("smollm2", base_url=f"{address}/v1", timeout=300, options=options)
    yield made
    await made.close()


async def test_a_text(model: OpenAIModel) -> None:
    reply = await model.chat(HELLO)
    assert reply.text.strip()
    assert reply.uses == ()
    assert reply.usage.input_tokens > 10
    assert 1 <= reply.usage.output_tokens <= 24
    assert reply.ended in {"stop", "length"}
    assert (reply.ended == "length") == (reply.usage.output_tokens == 24)


async def test_the_limit_of_tokens_holds(model: OpenAIModel) -> None:
    asked = ChatRequest(messages=(ChatMessage(role="user", content="Tell a long story."),), max_tokens=5)
    reply = await model.chat(asked)
    assert (reply.ended, reply.usage.output_tokens) == ("length", 5)


async def test_json_that_fits_its_schema(model: OpenAIModel) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}, "sunny": {"type": "boolean"}},
        "required": ["city", "sunny"],
        "additionalProperties": False,
    }
    words = ChatMessage(role="user", content="Which city is the capital of France, and is it sunny?")
    reply = await model.chat(ChatRequest(messages=(words,), schema=schema, max_tokens=60))
    read = json.loads(reply.text)
    assert sorted(read) == ["city", "sunny"]
    assert read["city"] in {"Paris", "Rome"}
    assert isinstance(read["sunny"], bool)


async def test_more_than_it_can_read_is_refused_and_not_tried_again(model: OpenAIModel) -> None:
    endless = ChatRequest(messages=(ChatMessage(role="user", content="word " * 9_000),), max_tokens=5)
    with pytest.raises(ClicketError, match=r"context|too long") as raised:
        await model.chat(endless)
    assert not isinstance(raised.value, RetryableError)


async def test_a_stream_adds_up(model: OpenAIModel) -> None:
    deltas: list[Delta] = []
    reply = await model.stream(HELLO, deltas.append)
    assert len(deltas) > 3
    assert {one.kind for one in deltas} == {"text"}
    assert "".join(one.text for one in deltas) == reply.text
    assert 1 <= reply.usage.output_tokens <= 24


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 30}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = ToolOffer(name="weather", description="The weather of a city.", input_schema=SCHEMA)
TIME = ToolOffer(name="clock.now", description="The time in a city.", input_schema=SCHEMA)


@pytest.mark.parametrize("question", ["What is the weather in Paris?", "What time is it in Rome?", "Hello!", "🙂"])
@pytest.mark.parametrize("choice", ["auto", "required", "none"])
async def test_tools_by_schema(lively: OpenAIModel, question: str, choice: Any) -> None:
    """The model cannot call tools by itself. A grammar makes it write parseable calls of existing tools."""
    asked = ChatRequest(
        messages=(ChatMessage(role="user", content=question),),
        tools=(WEATHER, TIME),
        tool_choice=choice,
        max_tokens=80,
    )
    reply = await SchemaTools(lively).chat(asked)
    for use in reply.uses:
        assert use.name in {"weather", "clock.now"}
        if reply.ended == "stop":
            assert list(json.loads(use.arguments)) == ["city"]
    if reply.ended == "stop" and choice != "auto":
        assert bool(reply.uses) == (choice == "required")
    assert 1 <= reply.usage.output_tokens <= 80
