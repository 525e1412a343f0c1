"""The real openai SDK against a provider on loopback: chat completions and Responses, streamed and not."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.adapters.kit import PNG, RUNS, chat_results, draw, refused, responses_results, runtime, wire_name
from tests.adapters.provider import Provider

from clicket import tool
from clicket.adapters import openai
from clicket.errors import UsageError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

QUESTION: Any = {"role": "user", "content": "question"}


def call(id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def item(id: str, name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": text, **more}


CASES = [
    ("c1", "add", {"a": 1, "b": 2}, "3"),
    ("c2", "add", '{"a": 5, "b": null}', "6"),
    ("c3", "add", '{"a": ', "invalid_input"),
    ("c4", "add", '"{\\"a\\": 7}"', "8"),
    ("c5", "nothing", "", "null"),
    ("c6", "nothing", "null", "null"),
    ("c7", "", {}, "tool_not_found"),
    ("c8", "fail", {}, "tool_error"),
    ("c9", "add", '{"a": 1, "a": 2}', "invalid_input"),
    ("c10", "add", "[1]", "invalid_input"),
    ("c11", "add", 'null{"a": 1}', "invalid_input"),
    ("c12", "slow", {}, "timeout"),
    ("c13", "files.read", {"path": "é"}, "Größe von é: 3 €"),
    ("c14", "add", '{"a": NaN}', "invalid_input"),
]


def judge(texts: list[str]) -> None:
    for (id, _, _, wanted), text in zip(CASES, texts, strict=True):
        assert text == wanted or (text.startswith("Error: ") and refused(text, wanted)), (id, text)


@pytest.mark.parametrize("streamed", [False, True, "helper"])
async def test_chat(provider: Provider, gpt: AsyncOpenAI, streamed: Any) -> None:
    async with runtime() as rt:
        params = await openai.tool_params(rt, "t1", strict=True)
        calls = [call(id, name, arguments) for id, name, arguments, _ in CASES]
        provider.answers = [{"tool_calls": calls}, {"content": "done"}]
        ask: dict[str, Any] = {"model": "m", "messages": [QUESTION], "tools": params}
        if streamed == "helper":
            async with gpt.chat.completions.stream(model="m", messages=[QUESTION]) as stream:
                results = await openai.run(rt, stream, "t1")
        elif streamed:
            results = await openai.run(rt, await gpt.chat.completions.create(**ask, stream=True), "t1")
        else:
            completion = await gpt.chat.completions.create(**ask)
            assert len(provider.requests) == 1
            results = await openai.run(rt, completion, "t1")
        chat_results().validate_python(results)
        assistant: Any = {"role": "assistant", "tool_calls": calls}
        last = await gpt.chat.completions.create(model="m", messages=[QUESTION, assistant, *results])
        assert last.choices[0].message.content == "done"
    assert [r["tool_call_id"] for r in results] == [case[0] for case in CASES]
    judge([r["content"] for r in results])


@pytest.mark.parametrize("streamed", [False, True, "helper"])
async def test_responses(provider: Provider, gpt: AsyncOpenAI, streamed: Any) -> None:
    async with runtime() as rt:
        params = await openai.tool_params(rt, "t1", api="responses", strict=True)
        items = [item(id, name, arguments) for id, name, arguments, _ in CASES]
        provider.answers = [{"output": items}, {"output": []}]
        if streamed == "helper":
            async with gpt.responses.stream(model="m", input="question") as stream:
                results = await openai.run(rt, stream, "t1")
        elif streamed:
            raw = await gpt.responses.create(model="m", input="question", tools=params, stream=True)
            results = await openai.run(rt, raw, "t1")
        else:
            response = await gpt.responses.create(model="m", input="question", tools=params)
            results = await openai.run(rt, response, "t1")
            assert (await openai.run(rt, response.output, "t2"))[0] == results[0], "the output list alone works, too"
        responses_results().validate_python(results)
        await gpt.responses.create(model="m", input=[*items, *results])
    assert [r["call_id"] for r in results] == [case[0] for case in CASES]
    judge([r["output"] for r in results])


async def test_the_provider_refuses_a_lost_result(gpt: AsyncOpenAI) -> None:
    """Test of the fake provider: it refuses."""
    from openai import BadRequestError

    assistant: Any = {"role": "assistant", "tool_calls": [call("c1", "add", {})]}
    with pytest.raises(BadRequestError, match="must be followed by tool messages"):
        await gpt.chat.completions.create(model="m", messages=[QUESTION, assistant, QUESTION])
    with pytest.raises(BadRequestError, match="No tool output"):
        await gpt.responses.create(model="m", input=[item("c1", "add", {})])  # type: ignore[list-item]


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_stream_runs_calls_when_they_are_complete(provider: Provider, gpt: AsyncOpenAI, api: str) -> None:
    """The first call has run before the answer ends."""
    last = "finish" if api == "chat" else "response.completed"
    provider.pauses[last] = asyncio.Event()

    @tool
    async def mark() -> str:
        provider.pauses[last].set()
        return "marked"

    async with runtime(tools=[mark]) as rt:
        stream: Any
        if api == "chat":
            provider.answers = [{"tool_calls": [call("c1", "mark", {}), call("c2", "mark", {})]}]
            stream = await gpt.chat.completions.create(model="m", messages=[QUESTION], stream=True)
        else:
            provider.answers = [{"output": [item("c1", "mark", {}), item("c2", "mark", {})]}]
            stream = await gpt.responses.create(model="m", input="q", stream=True)
        async with openai.watch(rt, stream, "t1") as events:
            seen = [event async for event in events]
            results = await events.results()
    assert len(seen) > 4
    assert [r.get("content") or r.get("output") for r in results] == ["marked", "marked"]


async def test_params(provider: Provider, gpt: AsyncOpenAI) -> None:
    @tool(description="x" * 5_000)
    async def optional(a: int, b: list[str] | None = None, c: float = 1.5) -> str:
        return repr((a, b, c))

    @tool
    async def loose(anything: dict[str, int]) -> str:
        return ""

    async with runtime(tools=[optional, loose]) as rt:
        (first, second) = await openai.tool_params(rt, "t1", strict=True)
        assert first["function"]["strict"] is True
        assert first["function"]["parameters"]["required"] == ["a", "b", "c"]
        assert len(first["function"]["description"]) == 1_024
        assert second["function"]["strict"] is False, "a schema that strict mode cannot express is sent as it is"
        provider.answers = [{"tool_calls": [call("c1", "optional", {"a": 1, "b": None, "c": None})]}]
        completion = await gpt.chat.completions.create(model="m", messages=[QUESTION], tools=[first, second])
        (result,) = await openai.run(rt, completion, "t1")
        assert result["content"] == "(1, None, 1.5)", "nulls from strict mode are removed"
        flat = await openai.tool_params(rt, "t1", api="responses")
        assert [(param["name"], param["strict"]) for param in flat] == [("optional", False), ("loose", False)]
        with pytest.raises(UsageError, match="api must be"):
            openai.tool_params(rt, "t1", api="assistants")  # type: ignore[call-overload]


async def test_the_odd_kinds(provider: Provider) -> None:
    async with runtime() as rt:
        custom = {"id": "c1", "type": "custom", "custom": {"name": "echo", "input": "hello"}}
        chat = await openai.run(rt, {"choices": [{"message": {"tool_calls": [custom]}}]}, "t1")
        assert chat == [{"role": "tool", "tool_call_id": "c1", "content": "HELLO"}]
        output = [
            {"type": "message", "content": []},
            {"type": "custom_tool_call", "call_id": "c2", "name": "echo", "input": "hi"},
            {"type": "web_search_call", "id": "ws"},
            item("c3", "add", {"a": 1}, caller={"type": "program", "caller_id": "p1"}),
            item("c4", "add", {"a": 1}, status="incomplete"),
        ]
        items = await openai.run(rt, {"id": "r", "output": output}, "t1")
        responses_results().validate_python(items)
        assert items[0] == {"type": "custom_tool_call_output", "call_id": "c2", "output": "HI"}
        assert items[1]["caller"] == {"type": "program", "caller_id": "p1"}
        assert "not run" in items[2]["output"]
        old = {"role": "assistant", "function_call": {"name": "add", "arguments": '{"a": 1}'}}
        assert await openai.run(rt, old, "t1") == [{"role": "function", "name": "add", "content": "2"}]


async def test_streams_of_other_vendors() -> None:
    """Whole calls in one piece, no index, the same index for all, a name in every piece, arguments that are an object."""

    def chunk(*calls: Any, reason: str | None = None) -> dict[str, Any]:
        return {"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": list(calls)}, "finish_reason": reason}]}

    def piece(id: str | None, name: str | None, arguments: Any, index: int | None = 0) -> dict[str, Any]:
        return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}

    async def stream() -> Any:
        yield chunk(piece("a", "add", '{"a": 1}'), piece("b", "add", '{"a": 2}'))
        yield chunk(piece("c", "add", None), piece(None, "add", '{"a": '), piece("c", None, "3}"))
        yield chunk(piece("d", "add", {"a": 4}))
        yield {"id": "x", "choices": None}
        yield {"id": "x", "choices": [{"index": 1, "delta": {"tool_calls": [piece("z", "add", "{}")]}}]}
        yield chunk(piece("e", "add", '{"a": 5}', index=None), reason="tool_calls")

    async with runtime() as rt:
        results = await openai.run(rt, stream(), "t1")
    assert [(r["tool_call_id"], r["content"]) for r in results] == [
        ("a", "2"), ("b", "3"), ("c", "4"), ("d", "5"), ("e", "6"),
    ]  # fmt: skip


async def test_what_was_cut_is_not_run() -> None:
    async def broken() -> Any:
        yield {"id": "x", "choices": [{"delta": {"tool_calls": [{"index": 0, **call("a", "nothing", "")}]}}]}

    async def broken_response() -> Any:
        yield {"type": "response.created", "response": {"id": "r"}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item("a", "nothing", "")}

    async with runtime() as rt:
        message = {"tool_calls": [call("a", "nothing", "")]}
        for response in (broken(), broken_response(), {"choices": [{"message": message, "finish_reason": "length"}]}):
            (result,) = await openai.run(rt, response, "t1")
            assert "not run" in (result.get("content") or result.get("output"))
    assert RUNS == []


@pytest.mark.parametrize(
    "response",
    [
        {"id": "x", "choices": []},
        {"id": "x", "choices": None},
        {"id": "x", "choices": [{"message": None}]},
        {"id": "x", "choices": [{"message": {"tool_calls": None}}]},
        {"id": "x", "choices": [{"message": {"tool_calls": []}}]},
        {"id": "x", "output": None},
        {"id": "x", "output": [None, {"type": "message"}]},
        {"role": "assistant", "content": "hello"},
    ],
)
async def test_no_tool_calls_no_results(response: Any) -> None:
    async with runtime() as rt:
        assert await openai.run(rt, response, "t1") == []


async def test_what_is_no_response_is_the_programs_mistake() -> None:
    async with runtime() as rt:
        for response in (None, 3, "text", {"content": []}):
            with pytest.raises(UsageError, match="OpenAI"):
                await openai.run(rt, response, "t1")


async def test_names_that_do_not_fit_come_back(provider: Provider, gpt: AsyncOpenAI) -> None:
    async with runtime() as rt:
        params = await openai.tool_params(rt, "t1")
        wire = wire_name(params, "files_read")
        provider.answers = [{"tool_calls": [call("c1", wire, {"path": "x"})]}]
        completion = await gpt.chat.completions.create(model="m", messages=[QUESTION], tools=params)
        (result,) = await openai.run(rt, completion, "t1")
    assert result["content"] == "Größe von x: 3 €"
    assert RUNS == [("files.read", "x")]


async def test_images_of_a_result_are_shown_to_models_of_the_responses_api() -> None:
    async with runtime(tools=[draw]) as rt:
        call = {"type": "function_call", "call_id": "call_1", "name": "draw", "arguments": "{}"}
        made = await openai.run(rt, [call], "t1")
        responses_results().validate_python(made)
        text, picture = made[0]["output"]
        assert text["text"].startswith("a square")
        data = base64.b64encode(PNG).decode()
        assert picture == {"type": "input_image", "image_url": f"data:image/png;base64,{data}", "detail": "auto"}

        chat = {"id": "call_2", "type": "function", "function": {"name": "draw", "arguments": "{}"}}
        [message] = await openai.run(rt, [chat], "t1")
        assert message["content"].startswith("a square"), "a tool message of the chat API has text alone"
