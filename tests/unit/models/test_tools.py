"""Tools through the real SDKs: offers, calls and results in each vendor's format."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.adapters.provider import Provider
from tests.unit.models.kit import (
    ADD,
    STREAMED,
    VENDORS,
    Make,
    anthropic_model,
    ask,
    asks,
    assistant,
    chunk,
    openai_model,
    result,
    says,
    sse,
    user,
)

from clicket.errors import ClicketError, UsageError
from clicket.model.chat import ChatMessage, ToolOffer, ToolUse, Usage


@VENDORS
@STREAMED
async def test_calls_come_back_under_the_tools_own_names(provider: Provider, make: Make, streamed: bool) -> None:
    provider.answers = [says(make, "Hm.", ("c1", "add", '{"a": 1}'))]
    model = make(provider)
    await ask(model, asks(), streamed=streamed)
    wire = [one.get("function", one)["name"] for one in provider.requests[0]["tools"]]
    assert wire[0] == "add"
    assert wire[1].startswith("files_read_")

    provider.answers = [says(make, "Hm.", ("c1", wire[1], '{"path": "ä"}'), ("c2", "no_such", "{}"))]
    reply = await ask(model, asks(), streamed=streamed)
    assert (reply.text, reply.ended) == ("Hm.", "stop")
    assert reply.uses == (
        ToolUse(id="c1", name="files.read", arguments='{"path": "ä"}'),
        ToolUse(id="c2", name="no_such"),
    )


async def test_results_go_back_to_openai(provider: Provider) -> None:
    provider.is_picky = True
    provider.answers = [says(openai_model, "Done.")]
    await openai_model(provider).chat(
        asks(
            user("Go"),
            assistant(("c1", "add", '{"a":1}'), ("c2", "files.read", "{broken"), ("c3", "add", "null")),
            result("c2", "no JSON", failed=True),
            result("c1", "2"),
            result("c3", "Error: nothing", failed=True),
            assistant(text=""),
            assistant(text="Well."),
        )
    )
    read = provider.requests[0]["tools"][1]["function"]["name"]
    assert provider.requests[0]["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}},
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": read, "arguments": '{"invalid_arguments": "{broken"}'},
                },
                {"id": "c3", "type": "function", "function": {"name": "add", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no JSON"},
        {"role": "tool", "tool_call_id": "c3", "content": "Error: nothing"},
        {"role": "assistant", "content": "Well."},
    ]


async def test_results_go_back_to_anthropic(provider: Provider) -> None:
    provider.answers = [says(anthropic_model, "Done.")]
    await anthropic_model(provider, cache="off").chat(
        asks(
            user("Go"),
            user(" "),
            user("on"),
            assistant(("c1", "add", '{"a":1}'), ("c.2", "add", "[1]"), text="So:"),
            result("c.2", "", failed=True),
            result("c1", "2"),
            user("And now?"),
            assistant(text="\n"),
            user("Well?"),
        )
    )
    first, second, third = provider.requests[0]["messages"]
    assert first == {"role": "user", "content": [{"type": "text", "text": "Go"}, {"type": "text", "text": "on"}]}
    id = second["content"][2].pop("id")
    assert second["content"] == [
        {"type": "text", "text": "So:"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "name": "add", "input": {"invalid_arguments": "[1]"}},
    ]
    assert third == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "2"},
            {"type": "tool_result", "tool_use_id": id, "is_error": True},
            {"type": "text", "text": "And now?"},
            {"type": "text", "text": "Well?"},
        ],
    }


@VENDORS
async def test_whether_tools_are_to_be_used(provider: Provider, make: Make) -> None:
    provider.answers = [says(make, "a")] * 5
    model = make(provider)
    for choice in ("auto", "none", "required"):
        await model.chat(asks(tool_choice=choice))
    sent = [one.get("tool_choice") for one in provider.requests]
    assert sent == ([None, "none", "required"] if make is openai_model else [None, {"type": "none"}, {"type": "any"}])
    provider.refuses = lambda body: "tool_choice: is not supported with thinking" if "tool_choice" in body else None
    await model.chat(asks(tool_choice="required"))
    await model.chat(asks(tool_choice="required"))
    assert ["tool_choice" in one for one in provider.requests[3:]] == [True, False, False]
    assert all("tools" in one for one in provider.requests)


async def test_anthropic_wants_tools_wherever_there_were_calls(provider: Provider) -> None:
    provider.answers = [says(anthropic_model, "Short.")]
    spoken = (user("Go"), assistant(("c1", "files.read", "{}")), result("c1", "x"), user("Sum up."))
    await anthropic_model(provider).chat(asks(*spoken, tools=()))
    assert provider.requests[0]["tool_choice"] == {"type": "none"}
    assert len(provider.requests[0]["tools"]) == 1


async def test_thoughts_of_anthropic_go_back_as_they_were(provider: Provider) -> None:
    thought = {"type": "thinking", "thinking": "Let me see. ä", "signature": "c2ln"}
    hidden = {"type": "redacted_thinking", "data": "eHh4"}
    use = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
    text = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]
    orders = [
        [thought, hidden, text[0], use],
        [thought, text[0], hidden, text[1], use, {**thought, "signature": "bw=="}, {**use, "id": "c2"}],
    ]
    model = anthropic_model(provider)
    for blocks in orders:
        for streamed in (False, True):
            provider.answers = [{"content": blocks}, says(anthropic_model, "Done.")]
            reply = await ask(model, asks(), streamed=streamed)
            assert reply.thought.startswith("Let me see. ä")
            message = ChatMessage(role="assistant", content=reply.text, uses=reply.uses, vendor=reply.vendor)
            await model.chat(asks(user("Go"), message, *(result(one.id, "2") for one in reply.uses)))
            assert provider.requests[-1]["messages"][1]["content"] == blocks

            changed = ChatMessage(role="assistant", content="Something else", uses=reply.uses, vendor=reply.vendor)
            provider.answers = [says(anthropic_model, "Done.")]
            await model.chat(asks(user("Go"), changed, *(result(one.id, "2") for one in reply.uses)))
            sent = provider.requests[-1]["messages"][1]["content"]
            assert sent[0] == thought
            assert {"type": "text", "text": "Something else"} in sent
            provider.answers = [says(openai_model, "Done.")]
            await openai_model(provider).chat(asks(user("Go"), message, *(result(one.id, "2") for one in reply.uses)))
            assert "signature" not in str(provider.requests[-1])


@STREAMED
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thoughts_of_others_are_shown(provider: Provider, streamed: bool, field: str) -> None:
    provider.answers = [{"content": "Two.", field: "One and one. Hm."}]
    reply = await ask(openai_model(provider), asks(), streamed=streamed)
    assert (reply.thought, reply.text, reply.vendor) == ("One and one. Hm.", "Two.", None)


@VENDORS
@STREAMED
async def test_what_it_cost(provider: Provider, make: Make, streamed: bool) -> None:
    if make is openai_model:
        details = {"cached_tokens": 100_000, "cache_write_tokens": 50_000}
        usage = {"prompt_tokens": 300_000, "completion_tokens": 10_000, "prompt_tokens_details": details}
        usage["completion_tokens_details"] = {"reasoning_tokens": 8_000}
    else:
        usage = {"input_tokens": 150_000, "cache_read_input_tokens": 100_000, "cache_creation_input_tokens": 50_000}
        usage |= {"output_tokens": 10_000, "output_tokens_details": {"thinking_tokens": 8_000}}
    provider.answers = [{**says(make, "a"), "usage": usage}] * 2
    prices = {"input": 3.0, "output": 15.0, "cached": 0.3, "cache_write": 4.0}
    reply = await ask(make(provider, prices=prices), asks(), streamed=streamed)
    written = 10_000 if make is openai_model or not streamed else 1  # the provider's last event has 1
    cost = 150_000 * 3e-6 + 100_000 * 0.3e-6 + 50_000 * 4e-6 + written * 15e-6
    assert reply.usage == Usage(
        input_tokens=300_000,
        output_tokens=written,
        cached_tokens=100_000,
        cache_write_tokens=50_000,
        reasoning_tokens=8_000,
        cost=reply.usage.cost,
    )
    assert reply.usage.cost == pytest.approx(cost)
    assert (await ask(make(provider), asks(), streamed=streamed)).usage.cost == 0.0


@pytest.mark.parametrize("prices", [{"inptu": 1.0}, {"input": -1}, {"input": float("nan")}, {"input": "3"}])
def test_prices_that_are_none(provider: Provider, prices: Any) -> None:
    with pytest.raises(UsageError, match="prices"):
        openai_model(provider, prices=prices)


HOSTILE: list[tuple[str, Any]] = [
    ("null calls", {"tool_calls": None}),
    ("empty list", {"tool_calls": []}),
    ("calls that are none", {"tool_calls": [None, 3, "x", {}, {"function": None}]}),
    ("a list of lists", {"tool_calls": [[]]}),
    ("an object", {"tool_calls": {"0": {}}}),
    ("no name", {"tool_calls": [{"id": None, "function": {"name": None, "arguments": None}}]}),
    ("arguments as an object", {"tool_calls": [{"id": "c", "function": {"name": "add", "arguments": {"a": 1}}}]}),
    ("arguments as a list", {"tool_calls": [{"id": "c", "function": {"name": "add", "arguments": [1]}}]}),
    ("the same id", {"tool_calls": [{"id": "c", "function": {"name": "add", "arguments": "{}"}}] * 3}),
    ("no id", {"tool_calls": [{"function": {"name": "add", "arguments": "{}"}}] * 2}),
    ("legacy", {"function_call": {"name": "add", "arguments": '{"a": 1}'}}),
    ("surrogates", {"content": "\ud800", "tool_calls": [{"id": "\udc00", "function": {"name": "\ud800", "arguments": '{"a": "\ud800"}'}}]}),
    ("parts", {"content": [{"type": "text", "text": "a"}, {"type": "image"}, None, {"text": 3}]}),
    ("content is a number", {"content": 3, "refusal": 4, "reasoning": 5}),
    ("usage is a text", {"content": "a", "usage": "much"}),
    ("usage is endless", {"content": "a", "usage": {"prompt_tokens": 10**400, "completion_tokens": -1}}),
]  # fmt: skip


@pytest.mark.parametrize("message", [one for _, one in HOSTILE], ids=[name for name, _ in HOSTILE])
async def test_whatever_openai_answers_is_read(provider: Provider, message: Any) -> None:
    usage = message.get("usage", {"prompt_tokens": 1})
    plain = {key: value for key, value in message.items() if key != "usage"}
    body = {"choices": [{"index": 0, "message": plain, "finish_reason": "stop"}], "usage": usage}
    provider.answers = [{"status": 200, "body": body}]
    reply = await openai_model(provider, prices={"input": 1}).chat(asks())
    msgspec.json.encode(reply)
    assert len({use.id for use in reply.uses}) == len(reply.uses)
    assert all(use.id for use in reply.uses)
    # What was read can be sent again, with results.
    said = ChatMessage(role="assistant", content=reply.text, uses=reply.uses)
    for make in (openai_model, anthropic_model):
        provider.is_picky = True
        provider.answers = [says(make, "a")]
        await make(provider).chat(asks(user("Go"), said, *(result(use.id, "r") for use in reply.uses), user("Go")))


async def test_arguments_in_other_forms_are_what_they_say(provider: Provider) -> None:
    calls = [{"id": "c", "function": {"name": "add", "arguments": {"a": 1}}}, {"function": {"name": "add"}}]
    provider.answers = [
        {"content": None, "tool_calls": calls},
        {"content": None, "function_call": {"name": "add", "arguments": '{"a": 1}'}},
    ]
    model = openai_model(provider)
    assert [use.arguments for use in (await model.chat(asks())).uses] == ['{"a": 1}', "{}"]
    assert (await model.chat(asks())).uses == (ToolUse(id="call_0", name="add", arguments='{"a": 1}'),)


@VENDORS
@STREAMED
async def test_a_call_that_was_cut_is_never_one_without_arguments(
    provider: Provider, make: Make, streamed: bool
) -> None:
    cut = says(make, "", ("c1", "add", "{}"), ("c2", "add", "{}"))
    if make is openai_model:
        cut["tool_calls"][1]["function"]["arguments"] = ""
        cut["finish_reason"] = "length"
    else:
        # A whole message contains a part of the input as if it were complete; a stream breaks off.
        cut["content"][1].update(raw="", input={} if streamed else {"a": 1})
        cut["stop_reason"] = "max_tokens"
    provider.answers = [cut]
    reply = await ask(make(provider), asks(), streamed=streamed)
    assert reply.ended == "length"
    assert reply.uses[0].arguments == "{}"
    assert reply.uses[1].arguments.startswith("[cut: ")


@STREAMED
async def test_arguments_without_end_are_cut_and_marked(provider: Provider, streamed: bool) -> None:
    whole = '{"a": 1}' + " " * (10 * 1024 * 1024)  # valid at any length: only the mark shows that it was cut
    calls = [{"index": 0, "id": "c", "type": "function", "function": {"name": "add", "arguments": whole}}]
    if streamed:
        provider.answers = [sse(chunk(tool_calls=calls), chunk("tool_calls"))]
    else:
        provider.answers = [{"content": None, "tool_calls": calls}]
    (use,) = (await ask(openai_model(provider), asks(), streamed=streamed)).uses
    assert 1024 * 1024 < len(use.arguments) < 1024 * 1024 + 200
    with pytest.raises(ValueError, match="Extra data"):
        json.loads(use.arguments)


@VENDORS
@STREAMED
async def test_calls_without_end(provider: Provider, make: Make, streamed: bool) -> None:
    provider.answers = [says(make, "", *((f"c{n}", "add", "{}") for n in range(1_003)))]
    reply = await ask(make(provider), asks(), streamed=streamed)
    assert len(reply.uses) == 1_000
    assert reply.ended == "length"


@VENDORS
async def test_an_error_in_place_of_an_answer(provider: Provider, make: Make) -> None:
    provider.answers = [{"status": 200, "body": {"error": {"message": "the upstream is gone", "code": 502}}}]
    with pytest.raises(ClicketError, match="upstream"):
        await make(provider).chat(asks())


@STREAMED
async def test_an_answer_of_a_given_form_beside_tools(provider: Provider, streamed: bool) -> None:
    """By a tool that must be used, at an address that supports no better way; a user's tool has its name."""
    provider.refuses = lambda body: "output_config: Extra inputs are not permitted" if "output_config" in body else None
    form = {"type": "object", "properties": {"n": {"type": "integer"}}}
    request = asks(tools=(ToolOffer(name="answer"), ADD), schema=form)
    model = anthropic_model(provider)
    provider.answers = [says(anthropic_model, "Here:", ("c1", "answer_", '{"n": 2}'))]
    reply = await ask(model, request, streamed=streamed)
    assert (json.loads(reply.text), reply.uses) == ({"n": 2}, ())
    assert provider.requests[-1]["tool_choice"] == {"type": "any"}
    provider.answers = [says(anthropic_model, "First", ("c1", "answer", "{}")), says(anthropic_model, '{"n": 3}')]
    reply = await ask(model, request, streamed=streamed)
    assert (reply.text, [use.name for use in reply.uses]) == ("First", ["answer"])
    assert (await ask(model, request, streamed=streamed)).text == '{"n": 3}'


@VENDORS
async def test_schemas_that_compose_are_shown_as_plain_objects(provider: Provider, make: Make) -> None:
    odd = ToolOffer(name="odd", input_schema={"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]})
    provider.answers = [says(make, "a")]
    await make(provider).chat(asks(tools=(odd, ToolOffer(name="none"), ADD)))
