"""One call, from its submission to its record: every kind of tool, on every store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from tests.scenarios.kit import assert_sound, make, states, types

from clicket import Policy, RetryableError, Runtime, State, ToolCall, ToolContext, tool
from clicket.errors import NotFound, UsageError
from clicket.model import fold, result_of

STAGES = ["find", "authorize", "validate", "execute", "process", "persist"]


@dataclass
class Point:
    x: int
    y: int = 0


class Order(BaseModel):
    item: str = Field(min_length=1)
    count: int = Field(default=1, ge=1)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def greet(name: str, greeting: Literal["hello", "bye"] = "hello", times: int | None = None) -> str:
    return " ".join([f"{greeting} {name}"] * (times or 1))


@tool
async def letters(word: str) -> AsyncIterator[str]:
    for letter in word:
        yield letter


@tool
def numbers(n: int) -> Iterator[int]:
    yield from range(n)


@tool
def shapes(order: Order, at: Point, note: Annotated[str, "What to write on it"] = "") -> dict[str, Any]:
    return {
        "order": type(order).__name__,
        "count": order.count,
        "at": type(at).__name__,
        "sum": at.x + at.y,
        "note": note,
    }


class Both:
    """Says which of its two bodies ran."""

    name = "both"

    async def run(self, word: str) -> list[str]:
        return ["run", word, threading.current_thread().name]

    def run_sync(self, word: str) -> list[str]:
        return ["run_sync", word, threading.current_thread().name]


class OnlySync:
    def run_sync(self, x: int) -> int:
        return x * 2


@tool(name="klass", timeout=5)
class Klass:
    """A class with one body."""

    async def run(self, x: int, ctx: ToolContext) -> list[Any]:
        return [x, ctx.tool]


@tool
async def fails(word: str) -> None:
    raise LookupError(f"no {word} here")


TOOLS = [add, greet, letters, numbers, shapes, Both, OnlySync, Klass, fails]


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
    assert names[0].startswith("clicket-worker")
    assert names[1:3] == [mine, mine]
    assert names[3].startswith("clicket-worker")


async def test_an_async_caller_gets_the_async_body_of_a_class(store: str) -> None:
    async with make(TOOLS, store) as rt:
        which, word, thread = (await rt.call("both", {"word": "w"})).output
    assert (which, word) == ("run", "w")
    assert thread == threading.current_thread().name


async def test_the_context_tells_the_tool_about_its_call(store: str) -> None:
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


async def test_submit_answers_when_the_call_is_durable_and_before_it_has_ended(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        await gate.wait()
        return "through"

    async with make([wait], store) as rt:
        handle = await rt.submit("wait", id="w", thread="t")
        record = await rt.get("w")
        assert record.events[0].type == "created"
        assert not record.state.is_terminal
        assert await rt.state("w", thread="t") in (State.INITIALIZING, State.RUNNING)
        assert [item.id for item in (await rt.history(active=True)).items] == ["w"]
        gate.set()
        assert (await handle.result()).output == "through"
        assert (await handle.result()).output == "through"
        assert await rt.state("w") is State.COMPLETED
        assert (await rt.history(active=True)).items == []


async def test_nothing_is_visible_before_the_store_has_it(sqlite: str) -> None:
    """A second runtime over the same file knows, at once, whatever the first one has told anybody."""
    seen: list[tuple[int, int]] = []
    async with make(TOOLS, sqlite) as rt, make(TOOLS, sqlite) as other:
        handle = await rt.submit("letters", {"word": "abc"}, id="c")
        assert (await other.get("c")).events
        async for event in handle.events():
            stored = await other.get("c")
            seen.append((event.seq, stored.events[-1].seq))
    assert seen
    assert all(told <= kept for told, kept in seen)


async def test_intent_is_durable_before_the_body_runs(sqlite: str) -> None:
    found = []

    @tool
    async def look(ctx: ToolContext) -> None:
        record = await other.get(ctx.call_id)
        found.append((record.state, types(record)[-1]))

    async with make([], sqlite) as other, make([look], sqlite) as rt:
        assert (await rt.call("look")).success
    assert found == [(State.RUNNING, "attempt_started")]


@pytest.mark.parametrize(
    ("keywords", "word"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"deadline": -1}, "deadline"),
        ({"deadline": "soon"}, "deadline"),
        ({"id": ""}, "id"),
        ({"id": "a\x00b"}, "id"),
        ({"id": 7}, "id"),
        ({"id": "\ud800"}, "id"),
        ({"thread": ""}, "thread"),
        ({"thread": None}, "thread"),
        ({"thread": "x" * 600}, "thread"),
        ({"priority": 1.5}, "priority"),
        ({"request_id": ""}, "request_id"),
        ({"metadata": [1]}, "metadata"),
    ],
)
async def test_wrong_use_raises_at_once_and_makes_no_call(store: str, keywords: dict[str, Any], word: str) -> None:
    async with make(TOOLS, store) as rt:
        with pytest.raises(UsageError, match=word):
            await rt.call("add", {"a": 1, "b": 2}, **keywords)
        assert (await rt.history()).items == []


async def test_ids_and_threads_of_other_alphabets_are_kept_as_they_are(store: str) -> None:
    async with make(TOOLS, store) as rt:
        await rt.call("add", {"a": 1, "b": 2}, id="呼び出し/1 🙂", thread="线程")
        record = await rt.get("呼び出し/1 🙂", thread="线程")
    assert (record.id, record.thread) == ("呼び出し/1 🙂", "线程")


async def test_what_is_not_there_is_said_to_be_not_there(store: str) -> None:
    async with make(TOOLS, store) as rt:
        for look in (rt.get, rt.state, rt.cancel, rt.approve, rt.handle):
            with pytest.raises(NotFound, match="nothing"):
                await look("nothing")
        with pytest.raises(NotFound):
            await rt.artifact("sha256-" + "0" * 64)
        with pytest.raises(NotFound):
            await rt.artifact("../../etc/passwd")


async def test_a_runtime_that_is_not_open_says_so() -> None:
    rt = make(TOOLS)
    with pytest.raises(UsageError, match="not open"):
        await rt.call("add", {"a": 1, "b": 2})
    async with rt:
        with pytest.raises(UsageError, match="open already"):
            await rt.open()
    with pytest.raises(UsageError, match="not open"):
        await rt.submit("add", {"a": 1, "b": 2})
    await rt.close()  # twice does no harm


async def test_tools_lists_what_is_registered_and_more_can_be_added(store: str) -> None:
    async with make([add], store) as rt:
        rt.add(greet)
        listed = {info.name: info for info in await rt.tools()}
        assert (await rt.call("greet", {"name": "x"})).success
    assert set(listed) == {"add", "greet"}
    assert listed["add"].description == "Add two numbers."
    assert listed["add"].input_schema["required"] == ["a", "b"]
    assert not listed["add"].is_async
    assert listed["greet"].is_async


async def test_a_tool_call_value_says_the_same_as_keywords(store: str) -> None:
    call = ToolCall("add", {"a": 1, "b": 2}, id="i", thread="t", timeout=3, deadline=9, priority=2, request_id="r")
    async with make(TOOLS, store) as rt:
        [result] = await rt.call_many([call])
        record = await rt.get("i", thread="t")
    assert result.output == 3
    assert (record.timeout, record.deadline, record.priority, record.request_id) == (3, 9, 2, "r")


async def test_leaving_with_an_error_stops_what_runs(store: str) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with pytest.raises(ZeroDivisionError):
        async with make([endless], store, close_timeout=60) as rt:
            await rt.submit("endless")
            await started.wait()
            raise ZeroDivisionError
    assert stopped.is_set()


async def test_close_lets_running_calls_finish(sqlite: str) -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        await gate.wait()
        return "finished"

    rt = await make([wait], sqlite).open()
    await rt.submit("wait", id="w")
    closing = asyncio.create_task(rt.close())
    await asyncio.sleep(0)
    gate.set()
    await closing
    async with make([], sqlite) as later:
        assert (await later.get("w")).output == "finished"


async def test_two_runtimes_have_nothing_in_common(tmp_path: Any) -> None:
    async with Runtime(TOOLS, store="memory://") as one, Runtime(TOOLS, store="memory://") as two:
        await one.call("add", {"a": 1, "b": 2}, id="x")
        with pytest.raises(NotFound):
            await two.get("x")


async def test_a_nameless_tool_does_not_make_a_nameless_thread_good() -> None:
    async with make(TOOLS) as rt:
        assert (await rt.call("")).error is not None
        with pytest.raises(UsageError, match="thread"):
            await rt.call("add", {"a": 1, "b": 2}, thread="")
