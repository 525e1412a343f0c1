"""A runtime refuses wrong use; opening, closing, and its tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenarios.calls_kit import (
    TOOLS,
    add,
    greet,
)
from tests.scenarios.kit import make

from clicket import Runtime, ToolCall, tool
from clicket.errors import NotFound, UsageError


@pytest.mark.parametrize(
    ("keywords", "part"),
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
async def test_wrong_use_raises_at_once_and_makes_no_call(store: str, keywords: dict[str, Any], part: str) -> None:
    async with make(TOOLS, store) as rt:
        with pytest.raises(UsageError, match=part):
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
