"""The real anthropic SDK against a provider on loopback: each tool_use gets one result, and the next request is accepted."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import pytest
from tests.adapters.kit import PNG, RUNS, anthropic_results, draw, refused, runtime, wire_name
from tests.adapters.provider import Provider
from tests.kit.waiting import PATIENCE

from clicket import tool
from clicket.adapters import anthropic
from clicket.errors import UsageError

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

QUESTION = {"role": "user", "content": "question"}
DONE = {"content": [{"type": "text", "text": "done"}]}


def use(id: str, name: str, input: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input, **more}


async def ask(client: AsyncAnthropic, messages: list[Any], tools: Any = ()) -> Any:
    return await client.messages.create(model="m", max_tokens=100, messages=messages, tools=list(tools))


async def test_a_whole_conversation(provider: Provider, claude: AsyncAnthropic) -> None:
    async with runtime() as rt:
        params = await anthropic.tool_params(rt, "t1", strict=True)
        provider.answers = [
            {
                "content": [
                    {"type": "text", "text": "let me see"},
                    use("u1", "add", {"a": 1, "b": 2}),
                    use("u2", wire_name(params, "files_read"), {"path": "ä.txt"}),
                    use("u3", "fail", {}),
                    use("u4", "slow", {}),
                    use("u5", "big", {}),
                    use("u6", "addd", {"a": 1}),
                    use("u7", "add", {"a": "x", "z": 1}),
                ]
            },
            DONE,
        ]
        message = await ask(claude, [QUESTION], params)
        results = await anthropic.run(rt, message, "t1")
        anthropic_results().validate_python(results)
        messages = [
            QUESTION,
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": results},
        ]
        last = await ask(claude, messages, params)
        history = await rt.history(thread="t1")
    assert last.content[0].text == "done"
    assert [r["tool_use_id"] for r in results] == ["u1", "u2", "u3", "u4", "u5", "u6", "u7"]
    assert [r["is_error"] for r in results] == [False, False, True, True, False, True, True]
    texts = [str(r["content"]) for r in results]
    assert texts[0] == "3"
    assert texts[1] == "Größe von ä.txt: 3 €"
    assert texts[2] == "tool_error: ValueError: out of paper"
    assert refused(texts[3], "timeout")
    assert len(texts[4].encode()) <= 200
    assert "[clicket: cut" in texts[4]
    assert refused(texts[5], "tool_not_found")
    assert "'add'" in texts[5]
    assert "files.read" not in texts[5], "the model reads names that its provider accepts"
    assert wire_name(params, "files_read") in texts[5]
    assert refused(texts[6], "invalid_input")
    assert "/z" in texts[6]
    assert len(history.items) == 7, "refused calls are recorded, too"


async def test_the_provider_refuses_a_lost_result(provider: Provider, claude: AsyncAnthropic) -> None:
    """Test of the fake provider: it refuses."""
    from anthropic import BadRequestError

    messages = [QUESTION, {"role": "assistant", "content": [use("u1", "add", {})]}, QUESTION]
    messages[2] = {"role": "user", "content": [{"type": "text", "text": "go on"}]}
    with pytest.raises(BadRequestError, match="without tool_result"):
        await ask(claude, messages)


async def test_params_are_the_tools_available_now() -> None:
    async with runtime() as rt:

        class Hub:
            async def available(self) -> list[str]:
                return ["add", "files.read"]

        class Door:
            tools = rt.tools
            call = rt.call

            def hub(self, thread: str) -> Hub:
                assert thread == "t1"
                return Hub()

        params = await anthropic.tool_params(Door(), "t1")  # type: ignore[arg-type]
    assert [param["name"] for param in params] == ["add", wire_name(params, "files_read")]
    assert "strict" not in params[0]


@pytest.mark.parametrize("helper", [False, True], ids=["raw", "helper"])
async def test_a_stream_runs_calls_when_they_are_complete(
    provider: Provider, claude: AsyncAnthropic, helper: bool
) -> None:
    """The first call has run before the last event of the answer is sent."""
    provider.answers = [
        {
            "content": [
                {"type": "text", "text": "hm"},
                use("u1", "mark", {"text": "é"}),
                use("u2", "nothing", {}),
                use("u3", "nope", {}),
            ]
        },
        DONE,
    ]
    provider.pauses["message_stop"] = asyncio.Event()

    @tool
    async def mark(text: str) -> str:
        provider.pauses["message_stop"].set()
        return text * 2

    @tool
    async def nothing() -> None: ...

    async with runtime(tools=[mark, nothing]) as rt:
        if helper:
            async with claude.messages.stream(model="m", max_tokens=9, messages=[QUESTION]) as stream:  # type: ignore[list-item]
                async with anthropic.watch(rt, stream, "t1") as events:
                    seen = [event.type async for event in events]
                    results = await events.results()
                message = await stream.get_final_message()
            assert "text" in seen
            again = await anthropic.run(rt, message, "t1")
            assert again == results
            assert len((await rt.history(thread="t1")).items) == 3, "the final message is the same response"
        else:
            raw = await claude.messages.create(model="m", max_tokens=9, messages=[QUESTION], stream=True)  # type: ignore[list-item]
            results = await anthropic.run(rt, raw, "t1")
    anthropic_results().validate_python(results)
    assert [(r["tool_use_id"], r["is_error"]) for r in results] == [("u1", False), ("u2", False), ("u3", True)]
    assert results[0]["content"] == "éé"  # type: ignore[typeddict-item]


async def test_malformed_input_in_a_stream(provider: Provider, claude: AsyncAnthropic) -> None:
    blocks = [use("u1", "add", {}, raw='{"a": 1,, }'), use("u2", "add", {}, raw='{"a": 4'), use("u3", "add", {"a": 5})]
    provider.answers = [{"content": blocks}]
    async with runtime() as rt:
        raw = await claude.messages.create(model="m", max_tokens=9, messages=[QUESTION], stream=True)  # type: ignore[list-item]
        results = await anthropic.run(rt, raw, "t1")
    assert [r["is_error"] for r in results] == [True, True, False]
    assert all(refused(str(r["content"]), "invalid_input") for r in results[:2])
    assert RUNS == [("add", (5, 1))]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_cut_by_the_token_limit_is_not_run(
    provider: Provider, claude: AsyncAnthropic, stream: bool
) -> None:
    provider.answers = [{"content": [use("u1", "nothing", {}), use("u2", "nothing", {})], "stop_reason": "max_tokens"}]
    async with runtime() as rt:
        response: Any = await claude.messages.create(  # type: ignore[call-overload]
            model="m", max_tokens=9, messages=[QUESTION], stream=stream
        )
        results = await anthropic.run(rt, response, "t1")
    assert [(r["tool_use_id"], r["is_error"]) for r in results] == [("u1", False), ("u2", True)]
    assert "token limit" in results[1]["content"]
    assert len(RUNS) == 1


async def test_a_stream_that_breaks_off_answers_what_was_begun() -> None:
    async def broken() -> Any:
        yield {"type": "message_start", "message": {"id": "msg_9"}}
        yield {"type": "content_block_start", "index": 0, "content_block": use("u1", "nothing", {})}

    async with runtime() as rt:
        results = await anthropic.run(rt, broken(), "t1")
    assert [(r["tool_use_id"], r["is_error"]) for r in results] == [("u1", True)]
    assert RUNS == []


async def test_a_stream_that_raises_stops_its_calls() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def broken() -> Any:
        yield {"type": "message_start", "message": {"id": "msg_9"}}
        yield {"type": "content_block_start", "index": 0, "content_block": use("u1", "wait", {})}
        yield {"type": "content_block_delta", "index": 0, "delta": {"partial_json": "{}"}}
        yield {"type": "content_block_stop", "index": 0}
        await started.wait()
        raise ConnectionError("gone")

    async with runtime(tools=[wait]) as rt:
        with pytest.raises(ConnectionError):
            await anthropic.run(rt, broken(), "t1")
        await asyncio.wait_for(stopped.wait(), PATIENCE)
        assert [str(r.state) for r in (await rt.history()).items] == ["cancelled"]


async def test_results_of_a_stream_left_early_are_refused() -> None:
    async def events() -> Any:
        yield {"type": "message_start", "message": {"id": "msg_9"}}
        yield {"type": "message_stop"}

    async with runtime() as rt, anthropic.watch(rt, events(), "t1") as watched:
        async for _ in watched:
            break
        assert await watched.results() == []


@pytest.mark.parametrize("content", [None, "text", [], [{"type": "text", "text": "x"}], [None, 3]])
async def test_no_tool_calls_no_results(content: Any) -> None:
    async with runtime() as rt:
        assert await anthropic.run(rt, {"id": "m", "content": content}, "t1") == []


@pytest.mark.parametrize("response", [None, 3, "text", {"choices": []}])
async def test_what_is_no_response_is_the_programs_mistake(response: Any) -> None:
    async with runtime() as rt:
        with pytest.raises(UsageError, match="Messages API"):
            await anthropic.run(rt, response, "t1")


async def test_wrong_use_raises() -> None:
    async with runtime() as rt:
        response = {"id": "m", "content": [use("u1", "add", {"a": 1})]}
        with pytest.raises(UsageError, match="thread"):
            await anthropic.run(rt, response, "")
        with pytest.raises(UsageError, match="max_concurrency"):
            await anthropic.run(rt, response, "t1", max_concurrency=0)
        with pytest.raises(UsageError, match="'id' cannot be set"):
            await anthropic.run(rt, response, "t1", id="x")
    with pytest.raises(UsageError, match="not open"):
        await anthropic.run(rt, response, "t1")


async def test_a_toolset_is_named_again() -> None:
    async with runtime() as rt:
        response = {"id": "m", "content": [use("u1", "add", {"a": 1}, toolset_name="files")]}
        (result,) = await anthropic.run(rt, response, "t1")
    assert result["toolset_name"] == "files"


async def test_images_of_a_result_are_shown() -> None:
    async with runtime(tools=[draw]) as rt:
        calls = [
            {"type": "tool_use", "id": f"toolu_{n}", "name": "draw", "input": {"broken": n == 1}} for n in range(2)
        ]
        shown, failed = anthropic_results().validate_python(await anthropic.run(rt, calls, "t1"))
        text, picture = shown["content"]
        assert text["text"].startswith("a square")
        assert picture["source"]["media_type"] == "image/png"
        assert base64.b64decode(picture["source"]["data"]) == PNG
        assert "no ink" in failed["content"]
