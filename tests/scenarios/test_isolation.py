"""Child processes: a tool that breaks its process affects only its own call."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import is_running
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios import process_tools
from tests.scenarios.kit import assert_loop_is_free, assert_sound, make, sqlite_url, states

from clicket import Runtime, State, tool

TOOLS = [
    process_tools.add, process_tools.where_am_i, process_tools.hang_with_child, process_tools.slow_at_first,
    process_tools.flaky, process_tools.misbehave, process_tools.emit_then,
]  # fmt: skip


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.slow), "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A child never sees the store, so one kind is enough: starting children takes time."""
    return "memory://" if request.param == "memory" else sqlite_url(tmp_path)


async def first_output(handle: Any) -> Any:
    async for event in handle.events():
        if event.type == "output":
            return event.data["content"]
    raise AssertionError("the call ended without a word")


async def works(rt: Runtime) -> None:
    result = await asyncio.wait_for(rt.call("add", {"a": 1, "b": 2}), PATIENCE)
    assert result.output == 3


async def test_a_process_tool_runs_in_another_process_with_its_context(store: str) -> None:
    async with make(TOOLS, store) as rt:
        result = await rt.call("where_am_i", thread="t9")
        record = await rt.get(result.call_id)
    assert result.error is None
    assert result.output["pid"] != os.getpid()
    assert result.output["thread"] == "t9"
    assert result.output["key"] == record.idempotency_key
    assert 0 < result.output["time_left"] <= 30
    assert states(record.events) == ["pending", "initializing", "running", "completed"]
    assert_sound(record)


async def test_output_and_progress_cross_the_border(store: str) -> None:
    async with make(TOOLS, store) as rt:
        result = await rt.call("emit_then", {"n": 20})
        record = await rt.get(result.call_id)
    assert result.output == "done"
    assert [e.data["content"] for e in record.events if e.type == "output"] == [f"{i};" for i in range(20)]
    assert record.progress is not None
    assert record.progress["percentage"] == 100
    assert_sound(record)


@pytest.mark.parametrize("how", ["timeout", "cancel", "close"])
async def test_a_stopped_tool_is_killed_with_its_children(store: str, how: str) -> None:
    rt = await make(TOOLS, store, tool_processes=1, close_timeout=0.01).open()
    try:
        handle = await rt.submit("hang_with_child", timeout=1.5 if how == "timeout" else None)
        pids = await first_output(handle)
        assert all(is_running(pid) for pid in pids)
        if how == "close":
            await rt.close()
        else:
            if how == "cancel":
                assert await handle.cancel()
            result = await handle.result()
            assert result.state is (State.CANCELLED if how == "cancel" else State.TIMEOUT)
            assert "abandoned" not in result.metadata
        assert not any(is_running(pid) for pid in pids)  # they are gone before the call ends
        if how != "close":
            await works(rt)  # its slot is free, and the pool has a new worker
    finally:
        await rt.close()


@pytest.mark.parametrize(
    ("how", "said"),
    [("sys.exit", "sys.exit"), ("os._exit", "4"), ("segfault", "SIGSEGV"), ("kill", "SIGKILL"), ("memory", "memory")],
)
async def test_a_tool_that_ruins_its_process_fails_alone(how: str, said: str) -> None:
    async with make(TOOLS, tool_processes=2, tool_process_memory=512 * 1024 * 1024) as rt:
        other = await rt.submit("emit_then", {"n": 50})
        result = await rt.call("misbehave", {"how": how})
        assert result.state is State.FAILED
        assert result.error is not None
        assert result.error.code == "tool_error"
        assert said in result.error.message + result.error.type
        assert (await other.result()).output == "done"
        await works(rt)
        await works(rt)


async def test_the_same_in_the_runtimes_own_process_ends_the_call_only(store: str) -> None:
    @tool
    def exits() -> None:
        raise SystemExit("bye")

    @tool
    async def interrupts() -> None:
        raise KeyboardInterrupt

    @tool
    def deep() -> Any:
        return deep.fn()

    async with make([exits, interrupts, deep, process_tools.add], store) as rt:
        results = [await rt.call(name) for name in ("exits", "interrupts", "deep")]
        await works(rt)
    assert [r.state for r in results] == [State.FAILED] * 3
    assert [r.error.type for r in results if r.error] == ["SystemExit", "KeyboardInterrupt", "RecursionError"]


async def test_a_timed_out_process_tool_that_may_be_repeated_is_run_again(store: str, tmp_path: Path) -> None:
    async with make(TOOLS, store, tool_processes=1) as rt:
        result = await rt.call("slow_at_first", {"marker": str(tmp_path / "m")})
        record = await rt.get(result.call_id)
    assert result.output == "done"
    assert [a.outcome for a in record.attempts] == ["timeout", "ok"]
    assert_sound(record)


async def test_errors_of_a_child_are_retried_like_others(store: str, tmp_path: Path) -> None:
    async with make(TOOLS, store) as rt:
        result = await rt.call("flaky", {"marker": str(tmp_path / "m")})
        record = await rt.get(result.call_id)
    assert result.output == 3
    assert [a.error.type if a.error else None for a in record.attempts] == ["RetryableError", "KeyError", None]


async def test_stopping_calls_before_they_start_costs_no_worker(store: str) -> None:
    """Each call is stopped somewhere between its acceptance and its body's start."""
    async with make(TOOLS, store, tool_processes=1, max_concurrency=1) as rt:
        await works(rt)
        for turns in range(12):
            handle = await rt.submit("hang_with_child")
            for _ in range(turns):
                await asyncio.sleep(0)
            assert await asyncio.wait_for(handle.cancel(), PATIENCE)
            assert (await handle.result()).state is State.CANCELLED
            assert_sound(await rt.get(handle.id))
        await works(rt)


async def test_more_calls_than_workers_wait_their_turn(store: str) -> None:
    async with make(TOOLS, store, tool_processes=2, max_concurrency=10) as rt:
        results = await rt.call_many([("add", {"a": i, "b": 1}) for i in range(20)], max_concurrency=10)
        assert len(rt.engine.processes.pids) <= 2
    assert [r.output for r in results] == [i + 1 for i in range(20)]


async def test_the_loop_is_free_while_a_process_starts_and_runs() -> None:
    async def start_and_run() -> None:
        async with make(TOOLS) as rt:
            await works(rt)

    await assert_loop_is_free(start_and_run)


async def test_a_tool_that_no_child_could_find_says_so(store: str) -> None:
    @tool(isolation="process")
    def local() -> None: ...

    async with make([local], store) as rt:
        result = await rt.call("local")
    assert result.state is State.FAILED
    assert result.error is not None
    assert "top level of a module" in result.error.message


async def test_no_process_is_left_when_the_runtime_is_closed() -> None:
    async with make(TOOLS, tool_processes=2) as rt:
        await rt.call_many([("add", {"a": 1, "b": 1})] * 4)
        pids = rt.engine.processes.pids
        assert pids
    await eventually(lambda: not any(is_running(pid) for pid in pids))
