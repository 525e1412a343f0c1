"""Both real SDKs against aimock, a third-party server: texts, calls and streams arrive, and failures are errors."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.models_kit.aimock import Aimock, answer, calls, failure, serving
from tests.models_kit.vendor_rules import accepted

ASKED: list[Any] = [{"role": "user", "content": "What is 1 + 1?"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
OPENAI_TOOLS: list[Any] = [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}]
ANTHROPIC_TOOLS: list[Any] = [{"name": "add", "input_schema": SCHEMA}]


@pytest.fixture(scope="module")
def server() -> Iterator[Aimock]:
    with serving() as made:
        yield made


async def ask_openai(server: Aimock, **options: Any) -> tuple[str, list[tuple[str, str, str]], list[str]]:
    """The text, the calls as (id, name, arguments), and the pieces of a stream."""
    import openai

    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        asked = {"model": "gpt-x", "messages": ASKED, "tools": OPENAI_TOOLS, **options}
        if not options.get("stream"):
            message = (await client.chat.completions.create(**asked)).choices[0].message
            made = [(one.id, one.function.name, one.function.arguments) for one in message.tool_calls or ()]
            return message.content or "", made, []
        pieces: list[str] = []
        text, made_of = "", {}
        async for chunk in await client.chat.completions.create(**asked):
            delta = chunk.choices[0].delta
            text += delta.content or ""
            for one in delta.tool_calls or ():
                pieces.append(one.function.arguments)
                id, name, so_far = made_of.get(one.index, (one.id, one.function.name, ""))
                made_of[one.index] = (id, name, so_far + one.function.arguments)
            pieces.append(delta.content or "")
        return text, list(made_of.values()), [one for one in pieces if one]


async def ask_anthropic(server: Aimock, **options: Any) -> tuple[str, list[tuple[str, str, str]], list[str]]:
    import anthropic

    async with anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        asked = {"model": "claude-x", "messages": ASKED, "tools": ANTHROPIC_TOOLS, "max_tokens": 99}
        pieces: list[str] = []
        if options.get("stream"):
            async with client.messages.stream(**asked) as stream:
                deltas = [event.delta async for event in stream if event.type == "content_block_delta"]
                pieces = [getattr(one, "text", "") or getattr(one, "partial_json", "") for one in deltas]
                message = await stream.get_final_message()
        else:
            message = await client.messages.create(**asked)
        text = "".join(one.text for one in message.content if one.type == "text")
        made = [(one.id, one.name, json.dumps(one.input)) for one in message.content if one.type == "tool_use"]
        return text, made, pieces


Ask = Callable[..., Any]
BOTH = pytest.mark.parametrize("ask", [ask_openai, ask_anthropic], ids=["openai", "anthropic"])
SDK = {ask_openai: "openai", ask_anthropic: "anthropic"}  # each imported by the tests that use it: they take seconds


@BOTH
@pytest.mark.parametrize("stream", [False, True])
async def test_texts_and_calls(server: Aimock, ask: Ask, stream: bool) -> None:
    server.script(
        answer("It is 2, I think.", chunkSize=4),
        calls(("add", {"a": 1}, "c1"), ("add", {"a": 2}, "c2"), chunkSize=4),
        calls(("add", {"a": 3}, "c3"), text="So:"),
    )
    text, made, pieces = await ask(server, stream=stream)
    assert (text, made) == ("It is 2, I think.", [])
    assert pieces == (["It i", "s 2,", " I t", "hink", "."] if stream else [])

    text, made, pieces = await ask(server, stream=stream)
    assert (text, made) == ("", [("c1", "add", '{"a": 1}'), ("c2", "add", '{"a": 2}')])
    assert len(pieces) == (4 if stream else 0)  # two of each call

    text, made, _ = await ask(server, stream=stream)
    assert (text, made) == ("So:", [("c3", "add", '{"a": 3}')])

    assert len(server.asked) == 3
    for one in server.asked:
        accepted(one.path, one.body)
        assert one.body["messages"] == ASKED
        assert one.body.get("stream", False) is stream
    assert [one["response"]["status"] for one in server.journal] == [200] * 3


@BOTH
async def test_errors_come_in_the_vendors_form(server: Aimock, ask: Ask) -> None:
    sdk = importlib.import_module(SDK[ask])
    server.script(
        failure(429, "slow down", retry_after=7),
        failure(500, "broken"),
        answer("never read", chaos={"disconnectRate": 1}),
        answer("never read", chaos={"rateLimitRate": 1}),
        answer("never read", chaos={"malformedRate": 1}),
    )
    with pytest.raises(sdk.RateLimitError, match="slow down") as raised:
        await ask(server)
    assert raised.value.response.headers["retry-after"] == "7"
    with pytest.raises(sdk.InternalServerError, match="broken"):
        await ask(server)
    with pytest.raises(sdk.APIConnectionError):
        await ask(server)
    with pytest.raises(sdk.RateLimitError):
        await ask(server)
    with pytest.raises(ValueError, match="Expecting"):  # the SDKs do not wrap it
        await ask(server)
    with pytest.raises(sdk.BadRequestError, match="no answer left"):
        await ask(server)


@BOTH
@pytest.mark.parametrize(
    "cut",
    [
        answer("It is 2, I think.", chunkSize=2, truncateAfterChunks=3),
        calls(("add", {"a": 12345}), chunkSize=2, truncateAfterChunks=4),
    ],
    ids=["text", "call"],
)
async def test_a_stream_that_is_cut(server: Aimock, ask: Ask, cut: dict[str, Any]) -> None:
    server.script(cut)
    with pytest.raises(importlib.import_module(SDK[ask]).APIConnectionError):
        await ask(server, stream=True)
    assert server.journal[0]["response"]["interrupted"] is True


async def test_wrong_answers_can_be_given(server: Aimock) -> None:
    server.script(calls(("add", "{oops", "x"), ("", "null", "x")), calls(), answer(""))
    assert (await ask_openai(server))[1] == [("x", "add", "{oops"), ("x", "", "null")]
    assert await ask_openai(server) == ("", [], [])
    assert await ask_openai(server) == ("", [], [])

    server.script(calls(("add", "[1]", "x"), ("add", "null", "x"), ("add", "{oops", "y")))
    # The server repaired the last one: over this protocol a broken input arrives only as another value.
    assert [one[2] for one in (await ask_anthropic(server))[1]] == ["[1]", "null", "{}"]


async def test_it_does_not_judge_what_our_own_judge_does(server: Aimock) -> None:
    """If aimock starts to check these, this test fails, and the kit's docstring must change."""
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    unpaired: list[Any] = [*ASKED, {"role": "assistant", "content": None, "tool_calls": [call]}]
    server.script(answer("taken"))
    assert (await ask_openai(server, messages=unpaired))[0] == "taken"
    with pytest.raises(AssertionError, match="no result"):
        accepted(server.asked[0].path, server.asked[0].body)
