"""The pool of child processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import is_running
from tests.unit.engine.executors import process_tools as tools
from tests.unit.engine.executors.processes_kit import all_gone, run, running

from clicket.engine.executors.processes.pool import ProcessPool, ToolProcessDied
from clicket.errors import UsageError

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


# The pool -------------------------------------------------------------------------------------------------------------


async def test_size_is_the_limit_and_the_line_is_served_in_order(pool: ProcessPool) -> None:
    first, second = await pool.acquire(), await pool.acquire()
    line = [asyncio.create_task(pool.acquire()) for _ in range(3)]
    line[1].cancel()
    await asyncio.wait({line[1]})
    assert len(pool.pids) == 2
    assert not line[0].done()
    pool.release(first)
    assert await line[0] is first
    assert not line[2].done()
    await second.stop()
    pool.release(second)
    third = await line[2]
    assert third not in (first, second)
    assert len(pool.pids) == 2
    pool.release(first)
    pool.release(first)  # released twice: it is not lent to two calls
    pool.release(third)
    assert {await pool.acquire(), await pool.acquire()} == {first, third}


async def test_warm_workers_wait_ready_and_are_replaced() -> None:
    pool = ProcessPool(size=2, warm=1, idle=0.01, grace=0.3)
    try:
        await pool.start()
        worker = await pool.acquire()
        assert await run(worker, tools.add, a=1, b=2) == 3
        pool.release(worker)
        one, two = await pool.acquire(), await pool.acquire()
        pool.release(one)
        pool.release(two)
        # Both are idle for too long, but one has to stay.
        assert await asyncio.to_thread(all_gone, [one.pid])
        last = await pool.acquire()
        assert last is two
        os.kill(last.pid, signal.SIGKILL)
        await last.stop()
        pool.release(last)
        fresh = await pool.acquire()
        assert fresh not in (one, two)
        pool.release(fresh)
    finally:
        await pool.close()


async def test_an_idle_worker_that_dies_is_forgotten(pool: ProcessPool) -> None:
    worker = await pool.acquire()
    pool.release(worker)
    os.kill(worker.pid, signal.SIGKILL)
    await worker.stop()
    fresh = await pool.acquire()
    assert fresh.pid != worker.pid
    pool.release(fresh)


async def test_close_leaves_no_process_and_no_waiter() -> None:
    pool = ProcessPool(size=2, grace=0.3)
    idle, busy = await pool.acquire(), await pool.acquire()
    async with running(busy, tools.family) as (pids, task):
        waiting = asyncio.create_task(pool.acquire())
        await asyncio.sleep(0)
        await pool.close()
        assert not any(map(is_running, [*pids, idle.pid]))
        with pytest.raises(ToolProcessDied):
            await task
        with pytest.raises(UsageError, match="closed"):
            await waiting
    pool.release(idle)
    with pytest.raises(UsageError, match="closed"):
        await pool.acquire()
    await pool.close()


async def test_close_while_workers_start() -> None:
    pool = ProcessPool(size=2, warm=2)
    await pool.start()
    await pool.close()
    assert pool.pids == ()


async def test_an_acquire_that_is_cancelled_leaves_its_worker_to_others(pool: ProcessPool) -> None:
    hasty = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    hasty.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hasty
    worker = await pool.acquire()
    assert len(pool.pids) == 1
    pool.release(worker)


@pytest.mark.usefixtures("started")
async def test_a_worker_that_cannot_start_is_an_error_not_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ProcessPool(size=2, warm=2)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "path", ["/nowhere"])
            for _ in range(2):
                with pytest.raises(ToolProcessDied, match="did not start"):
                    await pool.acquire()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", "/nowhere/python")
            with pytest.raises(ToolProcessDied, match="nowhere"):
                await pool.acquire()
        worker = await pool.acquire()
        assert await run(worker, tools.add, a=1, b=2) == 3
        pool.release(worker)
    finally:
        await pool.close()


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 1, "warm": 2}, {"grace": -1}, {"idle": 0}])
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ProcessPool(**wrong)
