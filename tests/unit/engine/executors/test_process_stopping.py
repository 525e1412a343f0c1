"""Stopping a child process and everything that it started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import is_running
from tests.unit.engine.executors import process_tools as tools
from tests.unit.engine.executors.processes_kit import Listener, all_gone, run, running, start_script

from clicket.engine.executors.processes.pool import ProcessPool, ToolProcess, ToolProcessDied
from clicket.errors import UsageError

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


# Stopping -------------------------------------------------------------------------------------------------------------


async def test_stop_runs_the_clean_up_of_the_body(pool: ProcessPool, tmp_path: Path) -> None:
    for what, said in ((tools.tidy, "cleaned up, cancelled=True"), (tools.anap, "cleaned up")):
        worker = await pool.acquire()
        note = tmp_path / what.name
        async with running(worker, what, path=str(note)) as (pid, task):
            await worker.stop()
            assert not is_running(pid)
            with pytest.raises(ToolProcessDied) as caught:
                await task
            assert caught.value.details["stopped"] is True
        assert note.read_text() == said
        pool.release(worker)


@pytest.mark.parametrize("what", [tools.deaf, tools.clinging, tools.holding], ids=lambda what: str(what.name))
async def test_what_does_not_heed_term_is_killed(worker: ToolProcess, what: Any) -> None:
    async with running(worker, what) as (pid, _):
        await worker.stop()
        assert not is_running(pid)
        await worker.stop()
        with pytest.raises((UsageError, ToolProcessDied)):
            await run(worker, tools.add, a=1, b=2)


@pytest.mark.usefixtures("started")
async def test_stop_ends_the_whole_tree(worker: ToolProcess) -> None:
    async with running(worker, tools.family) as (pids, _):
        assert all(map(is_running, pids))
        assert len(set(pids)) == 5
        await worker.stop()
        assert not any(map(is_running, pids)), "dead when stop returns"


async def test_stop_ends_what_earlier_calls_left_running(pool: ProcessPool) -> None:
    worker = await pool.acquire()
    pids = await run(worker, tools.orphans)
    assert await run(worker, tools.add, a=1, b=2) == 3, "the worker is reused"
    assert all(map(is_running, pids))
    await worker.stop()
    assert not any(map(is_running, pids))


async def test_a_cancelled_run_spoils_the_worker(pool: ProcessPool) -> None:
    worker = await pool.acquire()
    async with running(worker, tools.nap) as (pid, task):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not worker.free
        pool.release(worker)
        assert await asyncio.to_thread(all_gone, [pid])


async def test_stop_while_the_tool_waits_for_a_paused_reader(worker: ToolProcess) -> None:
    listener = Listener()
    task = asyncio.create_task(run(worker, tools.flood, listener, n=300))
    await listener.first
    worker.pause()
    await worker.stop()
    with pytest.raises(ToolProcessDied):
        await task
    assert not is_running(worker.pid)


@pytest.mark.usefixtures("started")
async def test_a_guard_that_was_stopped_does_not_hold_up_stop(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await pool.acquire()
    monkeypatch.setattr(worker, "_grace", -4.9)
    async with running(worker, tools.family) as (pids, _):
        os.kill(pids[1], signal.SIGSTOP)
        await worker.stop()
        assert not any(map(is_running, pids))


RUNTIME = """
import asyncio, json, os, sys
from clicket.engine.executors.processes.pool import ProcessPool, target_of
from tests.unit.engine.executors import process_tools as tools

async def main():
    pool = ProcessPool(size=1, grace=30)
    worker = await pool.acquire()
    context = dict(call_id="c", tool="t", thread="t", attempt=1, idempotency_key="k", metadata={})
    def message(kind, data):
        print(json.dumps(data), flush=True)
    if "fork" in sys.argv and os.fork() == 0:  # a copy of the runtime holds all its descriptors
        print(json.dumps(os.getpid()), flush=True)
        while True:
            os.read(0, 1) or os._exit(0)
    what = getattr(tools, sys.argv[1])
    await worker.run(target_of(what), b"{}", context=context, started=lambda: None, message=message)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("what", ["family", "holding"])
def test_kill_9_of_the_runtime_leaves_nothing(tmp_path: Path, what: str) -> None:
    with start_script(tmp_path, RUNTIME, what) as runtime:
        assert runtime.stdout is not None
        said = json.loads(runtime.stdout.readline())
        pids = said if isinstance(said, list) else [said]
        assert all(map(is_running, pids))
        runtime.kill()
    assert all_gone(pids)


def test_kill_9_of_a_runtime_that_forked_leaves_nothing(tmp_path: Path) -> None:
    with start_script(tmp_path, RUNTIME, "family", "fork") as runtime:
        assert runtime.stdout is not None
        assert runtime.stdin is not None
        said = [json.loads(runtime.stdout.readline()) for _ in range(2)]
        copy, pids = sorted(said, key=lambda value: isinstance(value, list))
        runtime.kill()
        assert all_gone(pids)
        assert is_running(copy), "the copy of the runtime, with its lifelines open, still exists"
        runtime.stdin.close()
        assert all_gone([copy])


def test_a_loop_that_ends_without_close_leaves_nothing() -> None:
    async def forget() -> list[int]:
        pool = ProcessPool(size=1)
        worker = await pool.acquire()
        listener = Listener()
        task = asyncio.create_task(run(worker, tools.family, listener))
        pids: list[int] = await listener.first
        assert not task.done()
        return pids

    assert all_gone(asyncio.run(forget()))
