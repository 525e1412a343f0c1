"""The real SDKs against a server with both protocols: requests, replies and translated errors."""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.provider import Provider, serving

from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Usage
from clicket.model.ports.services import ChatModel
from clicket.models import AnthropicModel, OpenAIModel

KEY = "sk-very-secret-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
ASKED = ChatRequest(
    messages=(ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content="What is it?"))
)
FOR_JSON = ChatRequest(messages=ASKED.messages, schema=SCHEMA, max_tokens=50)

Make = Callable[..., ChatModel]


def openai_model(provider: Provider, **options: Any) -> ChatModel:
    return OpenAIModel("gpt-x", base_url=f"{provider.url}/v1", api_key=KEY, **options)


def anthropic_model(provider: Provider, **options: Any) -> ChatModel:
    return AnthropicModel("claude-x", base_url=provider.url, api_key=KEY, **options)


VENDORS = pytest.mark.parametrize("make", [openai_model, anthropic_model], ids=["openai", "anthropic"])


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with serving() as made:
        yield made


def said(make: Make, text: str) -> dict[str, Any]:
    return {"content": text} if make is openai_model else {"content": [{"type": "text", "text": text}]}


async def test_openai_asks_and_reads(provider: Provider) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    provider.answers = [{"content": "A test.", "usage": usage}]
    model = openai_model(provider, options={"temperature": 0}, max_tokens=20)

    assert await model.chat(ASKED) == ChatReply(
        text="A test.", usage=Usage(input_tokens=11, output_tokens=3), id="chatcmpl-1", model="m"
    )
    assert provider.requests == [
        {
            "model": "gpt-x",
            "temperature": 0,
            "max_tokens": 20,
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is it?"}],
        }
    ]


async def test_anthropic_asks_and_reads(provider: Provider) -> None:
    usage = {"input_tokens": 11, "output_tokens": 3, "cache_read_input_tokens": 100}
    blocks = [{"type": "text", "text": "A "}, {"type": "text", "text": "test."}]
    provider.answers = [{"content": blocks, "usage": usage}]

    reply = await anthropic_model(provider).chat(ASKED)
    assert reply == ChatReply(
        text="A test.", usage=Usage(input_tokens=111, output_tokens=3, cached_tokens=100), id="msg_1", model="m"
    )
    assert provider.requests == [
        {
            "model": "claude-x",
            "max_tokens": 4096,
            "system": "Be brief.",
            "messages": [{"role": "user", "content": "What is it?"}],
        }
    ]


async def test_openai_falls_back_to_what_the_server_supports_and_remembers(provider: Provider) -> None:
    def refuses(body: dict[str, Any]) -> str | None:
        form = body.get("response_format", {}).get("type")
        return None if form in (None, knows) else "This response_format type is unavailable now"

    knows = "json_schema"
    provider.refuses = refuses
    model = openai_model(provider)
    provider.answers = [{"content": '{"answer": "a"}'}] * 4

    await model.chat(FOR_JSON)
    assert provider.requests[-1]["response_format"]["json_schema"] == {
        "name": "answer",
        "schema": SCHEMA,
        "strict": True,
    }
    knows = "json_object"
    await model.chat(FOR_JSON)
    assert [one["response_format"]["type"] for one in provider.requests[1:]] == ["json_schema", "json_object"]
    assert "JSON Schema" in provider.requests[-1]["messages"][-1]["content"]  # the schema is in the prompt now
    knows = "nothing"
    await model.chat(FOR_JSON)
    assert "response_format" not in provider.requests[-1]

    before = len(provider.requests)
    await model.chat(FOR_JSON)
    assert len(provider.requests) == before + 1


async def test_openai_uses_the_name_of_the_limit_that_the_server_supports(provider: Provider) -> None:
    provider.refuses = lambda body: (
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead." if "max_tokens" in body else None
    )
    provider.answers = [{"content": "{}"}] * 2
    model = openai_model(provider)
    await model.chat(FOR_JSON)
    await model.chat(FOR_JSON)
    assert [sorted(one) for one in provider.requests[1:]] == [
        ["max_completion_tokens", "messages", "model", "response_format"]
    ] * 2


async def test_anthropic_falls_back_to_a_tool_and_to_the_prompt(provider: Provider) -> None:
    refused: list[str] = []
    provider.refuses = lambda body: next(
        (f"{one}: Extra inputs are not permitted" for one in refused if one in body), None
    )
    model = anthropic_model(provider)

    provider.answers = [said(anthropic_model, '{"answer": "a"}')]
    assert json.loads((await model.chat(FOR_JSON)).text) == {"answer": "a"}
    assert provider.requests[-1]["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}

    refused.append("output_config")
    block = {"type": "tool_use", "id": "t1", "name": "answer", "input": {"answer": "ä"}}
    provider.answers = [{"content": [{"type": "text", "text": "Here:"}, block]}]
    assert json.loads((await model.chat(FOR_JSON)).text) == {"answer": "ä"}
    assert provider.requests[-1]["tool_choice"]["name"] == "answer"

    refused.append("tools")
    provider.answers = [said(anthropic_model, '{"answer": "c"}')]
    assert json.loads((await model.chat(FOR_JSON)).text) == {"answer": "c"}
    assert "JSON Schema" in provider.requests[-1]["messages"][-1]["content"]


@VENDORS
async def test_a_refusal_that_has_other_reasons_is_no_reason_to_step_down(provider: Provider, make: Make) -> None:
    provider.refuses = lambda body: "the model is asleep"
    with pytest.raises(ClicketError, match="asleep"):
        await make(provider).chat(FOR_JSON)
    assert len(provider.requests) == 1


@VENDORS
@pytest.mark.parametrize(
    ("status", "headers", "kind", "words", "wait"),
    [
        (429, {"retry-after": "7"}, RetryableError, "429", 7.0),
        (429, {"retry-after-ms": "250"}, RetryableError, "429", 0.25),
        (500, {}, RetryableError, "500", None),
        (503, {}, RetryableError, "503", None),
        (529, {}, RetryableError, "529", None),
        (401, {}, UsageError, "_API_KEY", None),
        (403, {}, UsageError, "_API_KEY", None),
        (404, {}, UsageError, "model's name", None),
        (413, {}, ClicketError, "too long", None),
        (400, {}, ClicketError, "refused the request", None),
    ],
)
async def test_failures_say_what_to_do_and_never_show_the_key(
    provider: Provider, make: Make, status: int, headers: dict[str, str], kind: type[Exception], words: str, wait: Any
) -> None:
    message = f"Something about {KEY} went wrong"
    provider.answers = [{"status": status, "headers": headers, "body": {"error": {"message": message, "type": "x"}}}]
    with pytest.raises(kind) as raised:
        await make(provider).chat(ASKED)
    error = raised.value
    assert words in str(error)
    assert getattr(error, "retry_after", None) == wait
    assert isinstance(error, RetryableError) == (kind is RetryableError)
    assert KEY not in "".join(traceback.format_exception(error)) + repr(error.__context__) + repr(make(provider))
    assert len(provider.requests) == 1  # the SDK's own retries are off
    assert KEY in provider.heads[0]  # it was sent, so it could have leaked


async def test_an_empty_account_is_not_tried_again(provider: Provider) -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    provider.answers = [{"status": 429, "body": body}]
    with pytest.raises(ClicketError, match="spent") as raised:
        await openai_model(provider).chat(ASKED)
    assert not isinstance(raised.value, RetryableError)


@VENDORS
async def test_an_answer_in_another_protocol_is_a_failure(provider: Provider, make: Make) -> None:
    for body in ("<html>hello</html>", "{}", "[]", "null", '{"choices": []}', '{"choices": [{}], "content": 3}'):
        kind = "text/html" if body.startswith("<") else "application/json"
        provider.answers = [{"status": 200, "headers": {"content-type": kind}, "body": body}]
        with pytest.raises(ClicketError):
            await make(provider).chat(ASKED)


@VENDORS
async def test_a_missing_or_silent_server_is_retryable(provider: Provider, make: Make) -> None:
    waiting, left = asyncio.Event(), asyncio.Event()

    async def never_answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await waiting.wait()
        writer.close()
        left.set()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as server:
        silent = Provider()
        silent.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(RetryableError, match="in time"):
            await make(silent, timeout=0.05).chat(ASKED)
        waiting.set()
        await left.wait()
    with pytest.raises(RetryableError, match="cannot be reached"):
        await make(silent).chat(ASKED)


@VENDORS
async def test_why_an_answer_ended(provider: Provider, make: Make) -> None:
    if make is openai_model:
        cut = {"content": '{"a', "finish_reason": "length"}
        declined = {"content": None, "refusal": "I will not."}
    else:
        cut = {**said(make, '{"a'), "stop_reason": "max_tokens"}
        declined = {**said(make, "I will not."), "stop_reason": "refusal"}
    provider.answers = [cut, declined]
    model = make(provider)
    first, second = await model.chat(ASKED), await model.chat(ASKED)
    assert (first.text, first.ended) == ('{"a', "length")
    assert (second.text, second.ended) == ("I will not.", "refusal")


async def test_without_a_key_or_with_wrong_options_nothing_is_sent(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (None, str(tmp_path)):
        if folder is not None:
            monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", folder)
        with pytest.raises(UsageError, match="ANTHROPIC_API_KEY"):
            await AnthropicModel("claude-x", base_url=provider.url).chat(ASKED)
    for make in (openai_model, anthropic_model):
        with pytest.raises(UsageError, match="options="):
            await make(provider, options={"no_such_thing": 1}).chat(ASKED)
    assert provider.requests == []


async def test_a_client_of_ones_own_is_used_and_not_closed(provider: Provider) -> None:
    from openai import AsyncOpenAI

    provider.answers = [{"content": "a"}, {"status": 500, "body": {}}]
    async with AsyncOpenAI(base_url=f"{provider.url}/v1", api_key=KEY) as client:
        model = OpenAIModel("gpt-x", client=client)
        assert (await model.chat(ASKED)).text == "a"
        with pytest.raises(RetryableError):
            await model.chat(ASKED)
        assert not client.is_closed()
    assert len(provider.requests) == 2
