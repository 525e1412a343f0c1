"""Streams through the real SDKs, of servers that follow the protocol and of some that do not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.adapters.provider import Provider
from tests.unit.models.kit import (
    VENDORS,
    Make,
    adds_up,
    anthropic_model,
    ask,
    asks,
    call_piece,
    chunk,
    openai_model,
    says,
    sse,
)

from clicket.errors import ClicketError, RetryableError
from clicket.model.chat import Delta

END = chunk("tool_calls")


@VENDORS
async def test_deltas_are_passed_on_as_they_arrive(provider: Provider, make: Make) -> None:
    provider.answers = [says(make, "Hm.", ("c1", "add", '{"a": 12345}'), ("c2", "add", '{"a": 2}'))]
    deltas: list[Delta] = []
    reply = await make(provider).stream(asks(), deltas.append)
    adds_up(deltas, reply)
    assert [(one.kind, one.use) for one in deltas] == [
        ("text", 0),
        ("name", 0),
        ("arguments", 0),
        ("arguments", 0),
        ("name", 1),
        ("arguments", 1),
        ("arguments", 1),
    ]
    assert provider.requests[0]["stream"] is True


A, B = '{"a": 1}', '{"a": 2}'
SERVERS: dict[str, list[Any]] = {
    "interleaved": [
        call_piece(index=0, id="x", name="add", arguments=""),
        call_piece(index=1, id="y", name="add", arguments=""),
        call_piece(index=0, arguments=A[:3]),
        call_piece(index=1, arguments=B[:5]),
        call_piece(index=0, arguments=A[3:]),
        call_piece(index=1, arguments=B[5:]),
    ],
    "ids and names with every piece": [
        call_piece(index=0, id="x", name="add", arguments=A[:3]),
        call_piece(index=0, id="x", name="add", arguments=A[3:]),
        call_piece(index=1, id="y", name="add", arguments=B[:3]),
        call_piece(index=1, id="y", name="add", arguments=B[3:]),
    ],
    "names again before the arguments": [
        call_piece(index=0, id="x", name="add", arguments=""),
        call_piece(index=0, id="x", name="add", arguments=""),
        call_piece(index=0, id="x", name="add", arguments=A),
        call_piece(index=1, id="y", name="add"),
        call_piece(index=1, id="y", name="add", arguments=B),
    ],
    "nulls and empty texts": [
        call_piece(index=0, id="x", name="add", arguments=None),
        call_piece(index=0, id=None, name=None, arguments=A[:3]),
        call_piece(index=0, id="", name="", arguments=A[3:]),
        call_piece(index=1, id="y", name=None, arguments=B[:3]),
        call_piece(index=1, id=None, name="add", arguments=B[3:]),
    ],
    "whole calls in one chunk, no index": [
        chunk(
            tool_calls=[
                {"id": "x", "function": {"name": "add", "arguments": A}},
                {"id": "y", "function": {"name": "add", "arguments": B}},
            ]
        )
    ],
    "whole calls, each in its chunk, always index 0": [
        call_piece(index=0, id="x", name="add", arguments=A),
        call_piece(index=0, id="y", name="add", arguments=B),
    ],
    "names in pieces": [
        call_piece(index=0, id="x", name="ad", arguments=""),
        call_piece(index=0, name="d", arguments=A),
        call_piece(index=1, id="y", name="add", arguments=B),
    ],
    "objects": [
        call_piece(index=0, id="x", name="add", arguments={"a": 1}),
        call_piece(index=1, id="y", name="add", arguments={"a": 2}),
    ],
    "the whole message at the end": [
        {
            "choices": [
                {
                    "message": {
                        "tool_calls": [
                            {"id": "x", "function": {"name": "add", "arguments": A}},
                            {"id": "y", "function": {"name": "add", "arguments": B}},
                        ]
                    }
                }
            ]
        }
    ],
}


@pytest.mark.parametrize("server", SERVERS)
async def test_servers_that_stream_in_their_own_way(provider: Provider, server: str) -> None:
    provider.answers = [sse(*SERVERS[server], END, "[DONE]")]
    reply = await ask(openai_model(provider), asks())
    assert [(use.id, use.name, use.arguments) for use in reply.uses] == [("x", "add", A), ("y", "add", B)]


@pytest.mark.parametrize(
    "events",
    [
        [call_piece(name="add", arguments=A), call_piece(name="add", arguments=B)],
        [call_piece(index=0, name="add", arguments=A), call_piece(index=0, name="add", arguments=B)],
        [call_piece(index=0, name="add", arguments=A[:2]), call_piece(index=0, name="add", arguments=A[2:])],
    ],
    ids=["nothing at all", "index 0", "one call"],
)
async def test_calls_without_ids(provider: Provider, events: Any) -> None:
    provider.answers = [sse(*events, END)]
    uses = (await ask(openai_model(provider), asks())).uses
    assert [use.arguments for use in uses] == [A, B][: len(uses)]
    assert len(uses) == (1 if events[0]["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] != A else 2)


async def test_halves_of_a_character_are_joined(provider: Provider) -> None:
    provider.answers = [sse(chunk(content="a\ud83d"), chunk(content="\ude00b\ud800"), chunk("stop", content="c\udfff"))]
    reply = await ask(openai_model(provider), asks())
    assert reply.text == "a😀b\\ud800c\\udfff"


async def test_usage_of_a_stream_is_requested_until_it_is_refused(provider: Provider) -> None:
    provider.answers = [says(openai_model, "a")] * 3
    model = openai_model(provider)
    reply = await ask(model, asks())
    assert reply.usage.total == 2
    provider.refuses = lambda body: "Unknown field: stream_options" if "stream_options" in body else None
    await ask(model, asks())
    await ask(model, asks())
    assert ["stream_options" in one for one in provider.requests] == [True, True, False, False]


async def test_a_server_that_does_not_stream_is_heard_all_the_same(provider: Provider) -> None:
    call = {"id": "x", "function": {"name": "add", "arguments": A}}
    whole = {"choices": [{"message": {"content": "Hm.", "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    provider.answers = [{"status": 200, "body": whole}, {"status": 200, "body": {"error": {"message": "no"}}}]
    reply = await ask(openai_model(provider), asks())
    assert (reply.text, reply.uses[0].arguments) == ("Hm.", A)
    with pytest.raises(ClicketError, match="no"):
        await ask(openai_model(provider), asks())


START = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3}}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hm"}}


def broken(make: Make, *events: Any) -> dict[str, Any]:
    """A stream with a valid start."""
    first = [chunk(content="Hm")] if make is openai_model else [START, BLOCK, TEXT]
    return sse(*first, *events, named=make is anthropic_model)


def failure(make: Make, kind: str) -> dict[str, Any]:
    error = {"type": kind, "message": "so it is"}
    return {"type": "error", "error": error} if make is anthropic_model else {"error": error}


@VENDORS
@pytest.mark.parametrize(
    ("kind", "again"),
    [
        ("overloaded_error", True),
        ("api_error", True),
        ("rate_limit_error", True),
        ("server_error", True),
        ("invalid_request_error", False),
        ("authentication_error", False),
    ],
)
async def test_errors_in_the_middle(provider: Provider, make: Make, kind: str, again: bool) -> None:
    provider.answers = [broken(make, failure(make, kind))]
    deltas: list[Delta] = []
    with pytest.raises(ClicketError) as raised:
        await make(provider).stream(asks(), deltas.append)
    assert isinstance(raised.value, RetryableError) == again
    assert deltas == [Delta("text", "Hm")]
    assert raised.value.__context__ is None  # the SDK's error contains the key


@VENDORS
async def test_streams_that_end_early_may_be_retried(provider: Provider, make: Make) -> None:
    garbage = {
        "status": 200,
        "headers": {"content-type": "text/event-stream"},
        "body": "event: message_start\ndata: {\n\n",
    }
    cut_off = broken(make)
    cut_off["headers"] = {**cut_off["headers"], "content-length": 10_000}
    provider.answers = [broken(make), sse(), garbage, cut_off]
    model = make(provider)
    for _ in range(4):
        with pytest.raises(RetryableError):
            await ask(model, asks())


@VENDORS
async def test_a_stream_that_falls_silent_may_be_retried(provider: Provider, make: Make) -> None:
    provider.pauses = {"finish": asyncio.Event(), "message_delta": asyncio.Event()}
    provider.answers = [says(make, "Hm.")]
    deltas: list[Delta] = []
    with pytest.raises(RetryableError, match="silent"):
        await make(provider, timeout=0.2).stream(asks(), deltas.append)
    assert deltas == [Delta("text", "Hm.")]
    for pause in provider.pauses.values():
        pause.set()


async def test_a_reason_to_end_is_enough(provider: Provider) -> None:
    ends = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    provider.answers = [broken(anthropic_model, ends)]
    reply = await ask(anthropic_model(provider), asks())
    assert (reply.text, reply.usage.input_tokens, reply.usage.output_tokens) == ("Hm", 3, 5)


JUNK: list[Any] = [
    None, 3, "text", [], [[]], {}, {"choices": None}, {"choices": [None]}, {"choices": [{"delta": 3}]},
    {"choices": [{"delta": {"tool_calls": 3}}]}, {"choices": [{"delta": {"tool_calls": [3, None, {}]}}]},
    {"choices": [{"index": 1, "delta": {"content": "of another answer"}}]}, {"choices": [{"index": "x", "delta": {}}]},
    {"type": "content_block_start", "index": None, "content_block": None}, {"type": "content_block_start"},
    {"type": "content_block_delta", "index": 7, "delta": {"type": "input_json_delta", "partial_json": "{"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "x"}},
    {"type": "content_block_delta", "index": 0, "delta": 3}, {"type": "content_block_stop", "index": []},
    {"type": "message_start", "message": 3}, {"type": "message_delta", "delta": None, "usage": "x"}, {"type": 7},
    {"usage": 3, "choices": []}, {"usage": {"prompt_tokens": "many", "prompt_tokens_details": 3}, "choices": []},
]  # fmt: skip


@VENDORS
@pytest.mark.parametrize("junk", JUNK, ids=str)
async def test_junk_between_pieces_harms_nothing(provider: Provider, make: Make, junk: Any) -> None:
    """It is ignored, or it ends the answer as a transient failure."""
    ends = (
        chunk("stop")
        if make is openai_model
        else {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    )
    provider.answers = [broken(make, junk, ends)]
    try:
        reply = await ask(make(provider), asks())
    except RetryableError:
        return
    assert reply.text == "Hm"


async def test_an_answer_without_end_is_not_read_to_its_end(provider: Provider) -> None:
    """17 MiB of thoughts without an end."""
    provider.answers = [sse(*([chunk(reasoning="x" * 1024 * 1024)] * 17), chunk(content="never read"))]
    deltas: list[Delta] = []
    reply = await openai_model(provider).stream(asks(), deltas.append)
    assert (reply.ended, reply.text) == ("length", "")
    adds_up(deltas, reply)


async def test_a_block_whose_input_comes_at_once(provider: Provider) -> None:
    def block(index: int, given: Any) -> dict[str, Any]:
        use = {"type": "tool_use", "id": f"c{index}", "name": "add", "input": given}
        return {"type": "content_block_start", "index": index, "content_block": use}

    ends = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}
    stop = {"type": "content_block_stop", "index": 1}
    provider.answers = [sse(START, block(1, {"a": 1}), stop, block(2, {}), ends, named=True)]
    reply = await ask(anthropic_model(provider), asks())
    assert [use.arguments for use in reply.uses] == ['{"a": 1}', "{}"]
