"""Every kind of tool through every stage: outputs, failures, refusals, states."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator
from tests.scenarios.calls_kit import (
    STAGES,
    TOOLS,
    add,
)
from tests.scenarios.kit import assert_sound, make, states, types

from clicket import Policy, RetryableError, State, ToolContext, tool
from clicket.model import fold, result_of


@pytest.mark.parametrize(
    ("name", "arguments", "output"),
    [
        ("add", {"a": 1, "b": 2}, 3),
        ("add", '{"a": 1, "b": 2}', 3),
        ("add", b'{"b": 2, "a": 1.0}', 3),
        ("greet", {"name": "Ada"}, "hello Ada"),
        ("greet", {"name": "Ada", "greeting": "bye", "times": 2}, "bye Ada bye Ada"),
        ("greet", {"name": "Ada", "times": None}, "hello Ada"),
        ("letters", {"word": "abc"}, "abc"),
        ("letters", {"word": ""}, ""),
        ("numbers", {"n": 3}, [0, 1, 2]),
        (
            "shapes",
            {"order": {"item": "pen", "count": 2}, "at": {"x": 3}, "note": "n"},
            {"order": "Order", "count": 2, "at": "Point", "sum": 3, "note": "n"},
        ),
        ("only_sync", {"x": 4}, 8),
        ("klass", {"x": 5}, [5, "klass"]),
    ],
)
async def test_every_kind_of_tool(store: str, name: str, arguments: Any, output: Any) -> None:
    async with make(TOOLS, store) as rt:
        result = await rt.call(name, arguments, thread="t1")
        record = await rt.get(result.call_id)
    assert result.success
    assert result.error is None
    assert result.state is State.COMPLETED
    assert result.output == output
    assert result.attempts == 1
    assert list(result.stages) == STAGES
    assert all(stage.outcome == "ok" and stage.duration >= 0 for stage in result.stages.values())
    assert_sound(record)
    assert (record.tool, record.thread, record.state, record.output) == (name, "t1", State.COMPLETED, output)
    assert record.started_at is not None
    assert record.ended_at is not None
    assert record.created_at <= record.started_at <= record.ended_at
    assert [a.number for a in record.attempts] == [1]
    assert record.attempts[0].outcome == "ok"
    assert list(record.stages) == STAGES


async def test_sync_tools_run_in_worker_threads_and_async_ones_on_the_loop(store: str) -> None:
    @tool
    def here() -> str:
        return threading.current_thread().name

    @tool
    async def there() -> str:
        return threading.current_thread().name

    @tool(isolation="inline")
    def inline() -> str:
        return threading.current_thread().name

    @tool(isolation="thread")
    async def apart() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    mine = threading.current_thread().name
    async with make([here, there, inline, apart], store) as rt:
        names = [(await rt.call(each)).output for each in ("here", "there", "inline", "apart")]
    assert names[0].startswith("clicket-tool")
    assert names[1:3] == [mine, mine]
    assert names[3].startswith("clicket-tool")


async def test_an_async_caller_gets_the_async_body_of_a_class(store: str) -> None:
    async with make(TOOLS, store) as rt:
        which, word, thread = (await rt.call("both", {"word": "w"})).output
    assert (which, word) == ("run", "w")
    assert thread == threading.current_thread().name


async def test_the_context_describes_the_call_to_the_tool(store: str) -> None:
    @tool
    async def who(ctx: ToolContext) -> dict[str, Any]:
        left = ctx.time_left
        assert left is not None
        assert 0 < left <= 30
        return {
            "id": ctx.call_id, "tool": ctx.tool, "thread": ctx.thread, "attempt": ctx.attempt,
            "key": ctx.idempotency_key, "metadata": dict(ctx.metadata), "cancelled": ctx.cancelled,
        }  # fmt: skip

    async with make([who], store) as rt:
        result = await rt.call("who", thread="t", id="my id", metadata={"a": [1]}, request_id="r1")
        record = await rt.get("my id")
    assert result.call_id == "my id"
    assert result.output == {
        "id": "my id", "tool": "who", "thread": "t", "attempt": 1,
        "key": record.idempotency_key, "metadata": {"a": [1]}, "cancelled": False,
    }  # fmt: skip
    assert record.idempotency_key
    assert record.request_id == "r1"
    assert result.metadata == {"a": [1]}


async def test_every_stage_has_the_time_that_it_took(store: str) -> None:
    """Also `authorize` of a call to which no rule applies; the same in the result, in the record and in the events."""
    async with make(TOOLS, store) as rt:
        result = await rt.call("fails", {"word": "milk"})
        record = await rt.get(result.call_id)
    times = {name: stage.duration for name, stage in result.stages.items()}
    assert [name for name, seconds in times.items() if not seconds > 0] == []
    assert record.stages == result.stages
    ended = {event.data["stage"]: event.data["duration"] for event in record.events if event.type == "stage_ended"}
    assert ended == times


async def test_a_failure_is_returned_with_what_the_tool_said(store: str) -> None:
    async with make(TOOLS, store) as rt:
        result = await rt.call("fails", {"word": "milk"})
        record = await rt.get(result.call_id)
    assert not result.success
    assert result.state is State.FAILED
    assert result.error is not None
    assert result.error.code == "tool_error"
    assert result.error.type == "LookupError"
    assert "no milk here" in result.error.message
    assert "Traceback" not in result.error.message
    assert (result.output, result.content, result.attempts) == (None, str(result.error), 1)
    assert record.error == result.error
    assert record.attempts[0].outcome == "tool_error"
    assert list(record.stages) == ["find", "authorize", "validate", "execute", "persist"]
    assert record.stages["execute"].outcome == "tool_error"
    assert_sound(record)


@pytest.mark.parametrize(
    ("name", "arguments", "code", "stage"),
    [
        ("ad", {"a": 1, "b": 2}, "tool_not_found", "find"),
        ("secret", {}, "permission_denied", "authorize"),
        ("add", {"a": 1}, "invalid_input", "validate"),
    ],
)
async def test_a_refused_call_is_on_record_with_its_stages(
    store: str, name: str, arguments: Any, code: str, stage: str
) -> None:
    ran = []

    @tool
    def secret() -> None:
        ran.append("secret")

    async with make([add, secret], store, policy=Policy(deny=["sec*"])) as rt:
        result = await rt.call(name, arguments, thread="t1")
        record = await rt.get(result.call_id)
        listed = await rt.history(thread="t1", state="failed")
    assert result.state is State.FAILED
    assert result.error is not None
    assert result.error.code == code
    assert result.attempts == 0
    assert result.stages[stage].outcome == code
    assert list(result.stages) == [*STAGES[: STAGES.index(stage) + 1], "persist"]
    assert record.stages == result.stages
    assert [item.id for item in listed.items] == [result.call_id]
    assert record.started_at is None
    assert record.ended_at is not None
    assert states(record.events) == ["pending", "failed"]
    assert_sound(record)
    assert not ran


async def test_an_unknown_tool_names_near_misses(store: str) -> None:
    async with make(TOOLS, store) as rt:
        near = (await rt.call("gret", {"name": "x"})).error
        odd = (await rt.call("\ud800\x00", {})).error
    assert near is not None
    assert "did you mean 'greet'" in near.message.lower()
    assert odd is not None
    assert odd.code == "tool_not_found"


async def test_arguments_are_checked_once(store: str) -> None:
    checks = []

    def seen(value: int) -> int:
        checks.append(value)
        return value

    @tool(retry_delay=0.001)
    async def counted(x: Annotated[int, AfterValidator(seen)], ctx: ToolContext) -> int:
        if ctx.attempt == 1:
            raise RetryableError("again")
        return x

    async with make([counted], store) as rt:
        assert (await rt.call("counted", {"x": 5})).output == 5
    assert checks == [5]


async def test_the_states_of_a_plain_and_of_a_streaming_call(store: str) -> None:
    async with make(TOOLS, store) as rt:
        plain = await rt.get((await rt.call("add", {"a": 1, "b": 1})).call_id)
        streamed = await rt.get((await rt.call("letters", {"word": "ab"})).call_id)
    assert states(plain.events) == ["pending", "initializing", "running", "completed"]
    assert states(streamed.events) == ["pending", "initializing", "running", "streaming", "completed"]
    assert types(plain) == [
        "created", "stage_ended", "stage_ended", "stage_ended", "state_changed", "state_changed", "attempt_started",
        "stage_ended", "stage_ended", "stage_ended", "state_changed",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["add", "letters", "fails", "numbers", "nobody"])
async def test_the_result_folded_from_the_store_equals_the_one_returned(store: str, name: str) -> None:
    arguments = {"add": {"a": 1, "b": 2}, "letters": {"word": "ab"}, "fails": {"word": "w"}, "numbers": {"n": 2}}
    async with make(TOOLS, store) as rt:
        result = await rt.call(name, arguments.get(name), metadata={"m": 1})
        handle = await rt.handle(result.call_id)
        assert await handle.result() == result
        events = [event async for event in handle.events()]
        assert result_of(fold(events)) == result
