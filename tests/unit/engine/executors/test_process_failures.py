"""Failures in a child process, and the errors that the caller gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import is_running
from tests.unit.engine.executors import process_tools as tools
from tests.unit.engine.executors.processes_kit import Listener, all_gone, run, running

from clicket.engine.executors.processes.pool import ProcessPool, ToolFailed, ToolProcess, ToolProcessDied

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


# Failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "type_", "retryable", "retry_after"),
    [
        ("value", "ValueError", False, None),
        ("connection", "ConnectionResetError", True, None),
        ("retryable", "RetryableError", True, 7),
        ("busy", "Busy", True, None),
        ("exit", "SystemExit", False, None),
        ("interrupt", "KeyboardInterrupt", False, None),
    ],
)
async def test_exceptions_are_described(
    worker: ToolProcess, kind: str, type_: str, retryable: bool, retry_after: Any
) -> None:
    with pytest.raises(ToolFailed) as caught:
        await run(worker, tools.fail, kind=kind)
    error = caught.value
    assert (error.type, error.retryable, error.retry_after) == (type_, retryable, retry_after)
    assert error.message
    assert "process_tools.py" in error.traceback
    assert "body.py" not in error.traceback
    assert await run(worker, tools.add, a=1, b=2) == 3, "the worker lives on"


async def test_odd_messages_of_exceptions_cross(worker: ToolProcess) -> None:
    with pytest.raises(ToolFailed, match=r"broken \\ud800 text"):
        await run(worker, tools.fail, kind="surrogate")
    with pytest.raises(ToolFailed) as caught:
        await run(worker, tools.fail, kind="long")
    assert len(caught.value.message) < 100_000


@pytest.mark.parametrize(
    ("how", "details"),
    [
        ("exit", {"exit_code": 3}),
        ("SIGSEGV", {"signal": "SIGSEGV"}),
        ("SIGKILL", {"signal": "SIGKILL"}),
        ("SIGABRT", {"signal": "SIGABRT"}),
    ],
)
async def test_a_dying_worker_fails_its_call_alone(pool: ProcessPool, how: str, details: dict[str, Any]) -> None:
    victim, other = await pool.acquire(), await pool.acquire()
    async with running(other, tools.nap) as (pid, task):
        with pytest.raises(ToolProcessDied) as caught:
            await run(victim, tools.die, how=how)
        assert details.items() <= caught.value.details.items()
        assert str(next(iter(details.values()))) in caught.value.message
        assert caught.value.code == "tool_error"
        assert all_gone([victim.pid])
        assert is_running(pid)
        assert not task.done()
        with pytest.raises(ToolProcessDied):
            await run(victim, tools.add, a=1, b=2)
        pool.release(victim)
        fresh = await pool.acquire()
        assert fresh.pid != victim.pid
        assert await run(fresh, tools.add, a=1, b=2) == 3
        pool.release(fresh)
        await other.stop()


@pytest.mark.usefixtures("started")
async def test_a_dying_worker_takes_its_children_along(worker: ToolProcess) -> None:
    listener = Listener()
    with pytest.raises(ToolProcessDied):
        await run(worker, tools.crash_with_child, listener)
    assert not is_running(await listener.first), "dead when the call has failed, not some time later"


async def test_a_memory_eater_fails_its_call_alone() -> None:
    pool = ProcessPool(size=1, memory=400 * 1024 * 1024)
    try:
        worker = await pool.acquire()
        with pytest.raises((ToolFailed, ToolProcessDied)) as caught:
            await run(worker, tools.eat)
        if isinstance(caught.value, ToolFailed):
            assert caught.value.type == "MemoryError"
        pool.release(worker)
        fresh = await pool.acquire()
        assert fresh.pid != worker.pid
        assert await run(fresh, tools.add, a=1, b=2) == 3
        pool.release(fresh)
    finally:
        await pool.close()


async def test_a_lost_wire_ends_the_worker(worker: ToolProcess) -> None:
    with pytest.raises(ToolProcessDied):
        await run(worker, tools.close_everything)
    assert all_gone([worker.pid])


@pytest.mark.usefixtures("started")
async def test_without_its_guard_nothing_survives_either(worker: ToolProcess) -> None:
    listener = Listener()
    with pytest.raises(ToolProcessDied, match="guard"):
        await run(worker, tools.kill_guard, listener)
    assert not any(map(is_running, await listener.first))


async def test_a_listener_that_raises_is_heard_by_the_caller(worker: ToolProcess) -> None:
    class Broken(Listener):
        def message(self, kind: str, data: Any) -> None:
            raise LookupError("my own fault")

    with pytest.raises(LookupError, match="my own fault"):
        await run(worker, tools.nap, Broken())
    assert not worker.free


# Forked copies, threads left behind -----------------------------------------------------------------------------------


async def test_a_forked_copy_does_not_answer(worker: ToolProcess) -> None:
    assert await run(worker, tools.fork_twice_as_much) == "one of two"
    assert await run(worker, tools.add, a=1, b=2) == 3


async def test_a_forked_copy_does_not_emit(worker: ToolProcess) -> None:
    listener = Listener()
    assert await run(worker, tools.fork_and_emit, listener) == 1
    assert listener.heard == []


async def test_a_context_is_mute_after_its_call(worker: ToolProcess, tmp_path: Path) -> None:
    first, second = Listener(), Listener()
    assert await run(worker, tools.leave_thread, first, path=str(tmp_path / "x")) == "left"
    await run(worker, tools.wake_thread, second, path=str(tmp_path / "x"))
    assert first.heard == second.heard == []
