"""Tools in child processes: what comes back, what is ended, what never harms anything else. Real processes, real kills."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import is_running
from tests.unit.execution import process_tools as tools

from clicket import process_table
from clicket.errors import InvalidInput, ResultUnserializable, UsageError
from clicket.execution.processes import tree
from clicket.execution.processes.pool import ProcessPool, Target, ToolFailed, Worker, WorkerDied, target_of
from clicket.execution.processes.wire import MAX_FRAME, Frames, Kind, WireError, header
from clicket.tools.context import STREAMED
from clicket.tools.function import tool

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")

CONTEXT: dict[str, Any] = {
    "call_id": "c1",
    "tool": "t",
    "thread": "t1",
    "attempt": 2,
    "idempotency_key": "k1",
    "metadata": {"who": "me"},
}


class Listener:
    """Hears what a job says, and can be waited on."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.started = 0
        self.first: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        self.started += 1

    def message(self, kind: str, data: Any) -> None:
        self.heard.append((kind, data))
        if not self.first.done():
            self.first.set_result(data)


async def run(worker: Worker, what: Any, listener: Listener | None = None, /, **arguments: Any) -> Any:
    listener = listener or Listener()
    output = await worker.run(
        target_of(what) if not isinstance(what, Target) else what,
        json.dumps(arguments).encode(),
        context={**CONTEXT, "time_left": 30.0},
        started=listener.start,
        message=listener.message,
    )
    return STREAMED if output is None else json.loads(output)


@contextlib.asynccontextmanager
async def running(worker: Worker, what: Any, **arguments: Any) -> AsyncIterator[tuple[Any, asyncio.Task[Any]]]:
    """A job that has said its first word (most say their pids), and its task."""
    listener = Listener()
    task = asyncio.create_task(run(worker, what, listener, **arguments))
    await asyncio.wait({task, listener.first}, return_when=asyncio.FIRST_COMPLETED)
    assert not task.done(), task.result()
    try:
        yield listener.first.result(), task
    finally:
        task.cancel()
        await asyncio.wait({task})


def all_gone(pids: Iterable[int], within: float = 10.0) -> bool:
    """Wait for processes to disappear; only a failing test waits for all of it."""
    left = set(pids)
    give_up_at = time.monotonic() + within
    while left and time.monotonic() < give_up_at:
        left = {pid for pid in left if is_running(pid)}
        time.sleep(0.005)
    return not left


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    pool = ProcessPool(size=2, grace=0.3)
    yield pool
    await pool.close()
    assert pool.pids == ()


@pytest.fixture
async def worker(pool: ProcessPool) -> AsyncIterator[Worker]:
    worker = await pool.acquire()
    yield worker
    pool.release(worker)


# Results --------------------------------------------------------------------------------------------------------------


async def test_output_comes_back_and_the_worker_stays_warm(pool: ProcessPool) -> None:
    seen = []
    for n in range(3):
        worker = await pool.acquire()
        assert await run(worker, tools.add, a=n, b=1) == n + 1
        seen.append(await run(worker, tools.count))
        pool.release(worker)
    assert seen == [[pool.pids[0], 1], [pool.pids[0], 2], [pool.pids[0], 3]]
    assert pool.pids[0] != os.getpid()


async def test_async_tools_get_a_loop_of_their_own(worker: Worker) -> None:
    for name in ("ann", "bob"):
        assert await run(worker, tools.greet, name=name) == {"text": f"hello {name}", "pid": worker.pid}


async def test_context_crosses_both_ways(worker: Worker) -> None:
    listener = Listener()
    output = await run(worker, tools.report, listener)
    assert output == {
        "call_id": "c1",
        "attempt": 2,
        "key": "k1",
        "metadata": {"who": "me"},
        "cancelled": False,
        "has_time": True,
    }
    assert listener.started == 1
    assert listener.heard == [
        ("emit", {"n": 1}),
        ("progress", {"step": 1, "total": 4, "text": "one of four"}),
        ("heartbeat", None),
        ("note", {"text": "a remark", "data": {"size": 3}}),
    ]


async def test_generators_stream(worker: Worker) -> None:
    listener = Listener()
    assert await run(worker, tools.stream, listener, n=3) is STREAMED
    assert listener.heard == [("emit", 0), ("emit", 1), ("emit", 2)]


async def test_a_paused_worker_waits_and_loses_nothing(worker: Worker, pool: ProcessPool) -> None:
    class Slow(Listener):
        def message(self, kind: str, data: Any) -> None:
            super().message(kind, data)
            if len(self.heard) == 1:
                worker.pause()

    listener = Slow()
    task = asyncio.create_task(run(worker, tools.flood, listener, n=300))
    await listener.first
    other = await pool.acquire()
    assert await run(other, tools.add, a=1, b=1) == 2
    pool.release(other)
    assert len(listener.heard) == 1, "nothing is delivered while the worker is paused"
    assert not task.done(), "20 MB do not fit into a socket: the tool waits"
    worker.resume()
    assert await task is STREAMED
    assert [int(chunk[:8]) for _, chunk in listener.heard] == list(range(300))


async def test_fifty_megabytes(worker: Worker) -> None:
    assert await run(worker, tools.large, size=50_000_000) == "x" * 50_000_000
    assert await run(worker, tools.add, a=1, b=2) == 3


async def test_numbers_and_text_are_kept_exactly(worker: Worker) -> None:
    assert await run(worker, tools.give, what="big") == 2**64
    assert await run(worker, tools.add, a=2**64, b=1) == 2**64 + 1
    assert await run(worker, tools.give, what="text") == "naïve ☃"
    assert await run(worker, tools.give, what="none") is None


@pytest.mark.parametrize("what", ["nan", "cycle", "generator", "bytes", "object"])
async def test_what_is_not_json_is_said_so(worker: Worker, what: str) -> None:
    with pytest.raises(ResultUnserializable):
        await run(worker, tools.give, what=what)
    assert worker.free


async def test_a_chunk_that_is_not_json_fails_the_call(worker: Worker) -> None:
    with pytest.raises(ResultUnserializable):
        await run(worker, tools.emit_object)
    assert await run(worker, tools.add, a=1, b=2) == 3


async def test_arguments_that_do_not_bind_never_start_the_body(worker: Worker) -> None:
    listener = Listener()
    with pytest.raises(InvalidInput) as caught:
        await run(worker, tools.add, listener, a="one", b=2)
    assert [problem["path"] for problem in caught.value.problems] == ["/a"]
    assert listener.started == 0
    assert worker.free


async def test_prints_never_reach_the_wire(worker: Worker, capfd: pytest.CaptureFixture[str]) -> None:
    # Its own pool, made while the descriptors are captured.
    pool = ProcessPool(size=1)
    try:
        captured = await pool.acquire()
        assert await run(captured, tools.shout) == "quiet"
        assert await run(captured, tools.add, a=1, b=2) == 3
    finally:
        await pool.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert "print xxx" in err
    assert "from a child" in err
    assert "\\ud800 to stderr" in err


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
    worker: Worker, kind: str, type_: str, retryable: bool, retry_after: Any
) -> None:
    with pytest.raises(ToolFailed) as caught:
        await run(worker, tools.fail, kind=kind)
    error = caught.value
    assert (error.type, error.retryable, error.retry_after) == (type_, retryable, retry_after)
    assert error.message
    assert "process_tools.py" in error.traceback
    assert "body.py" not in error.traceback
    assert await run(worker, tools.add, a=1, b=2) == 3, "the worker lives on"


async def test_odd_messages_of_exceptions_cross(worker: Worker) -> None:
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
        with pytest.raises(WorkerDied) as caught:
            await run(victim, tools.die, how=how)
        assert details.items() <= caught.value.details.items()
        assert str(next(iter(details.values()))) in caught.value.message
        assert caught.value.code == "tool_error"
        assert all_gone([victim.pid])
        assert is_running(pid)
        assert not task.done()
        with pytest.raises(WorkerDied):
            await run(victim, tools.add, a=1, b=2)
        pool.release(victim)
        fresh = await pool.acquire()
        assert fresh.pid != victim.pid
        assert await run(fresh, tools.add, a=1, b=2) == 3
        pool.release(fresh)
        await other.stop()


async def test_a_dying_worker_takes_its_children_along(worker: Worker) -> None:
    listener = Listener()
    with pytest.raises(WorkerDied):
        await run(worker, tools.crash_with_child, listener)
    assert not is_running(await listener.first), "gone when the call has failed, not some time later"


async def test_a_memory_eater_fails_its_call_alone() -> None:
    pool = ProcessPool(size=1, memory=400 * 1024 * 1024)
    try:
        worker = await pool.acquire()
        with pytest.raises((ToolFailed, WorkerDied)) as caught:
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


async def test_a_lost_wire_ends_the_worker(worker: Worker) -> None:
    with pytest.raises(WorkerDied):
        await run(worker, tools.close_everything)
    assert all_gone([worker.pid])


async def test_without_its_guard_nothing_survives_either(worker: Worker) -> None:
    listener = Listener()
    with pytest.raises(WorkerDied, match="guard"):
        await run(worker, tools.kill_guard, listener)
    assert not any(map(is_running, await listener.first))


async def test_a_listener_that_raises_is_heard_by_the_caller(worker: Worker) -> None:
    class Broken(Listener):
        def message(self, kind: str, data: Any) -> None:
            raise LookupError("my own fault")

    with pytest.raises(LookupError, match="my own fault"):
        await run(worker, tools.nap, Broken())
    assert not worker.free


# Stopping -------------------------------------------------------------------------------------------------------------


async def test_stop_runs_the_clean_up_of_the_body(pool: ProcessPool, tmp_path: Path) -> None:
    for what, said in ((tools.tidy, "cleaned up, cancelled=True"), (tools.anap, "cleaned up")):
        worker = await pool.acquire()
        note = tmp_path / what.name
        async with running(worker, what, path=str(note)) as (pid, task):
            await worker.stop()
            assert not is_running(pid)
            with pytest.raises(WorkerDied) as caught:
                await task
            assert caught.value.details["stopped"] is True
        assert note.read_text() == said
        pool.release(worker)


@pytest.mark.parametrize("what", [tools.deaf, tools.clinging, tools.holding], ids=lambda what: str(what.name))
async def test_what_does_not_heed_term_is_killed(worker: Worker, what: Any) -> None:
    async with running(worker, what) as (pid, _):
        await worker.stop()
        assert not is_running(pid)
        await worker.stop()
        with pytest.raises((UsageError, WorkerDied)):
            await run(worker, tools.add, a=1, b=2)


async def test_stop_ends_the_whole_tree(worker: Worker) -> None:
    async with running(worker, tools.family) as (pids, _):
        assert all(map(is_running, pids))
        assert len(set(pids)) == 5
        await worker.stop()
        assert not any(map(is_running, pids)), "gone when stop returns"


async def test_stop_ends_what_earlier_calls_left_running(pool: ProcessPool) -> None:
    worker = await pool.acquire()
    pids = await run(worker, tools.orphans)
    assert await run(worker, tools.add, a=1, b=2) == 3, "it is still used"
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


async def test_stop_while_the_tool_waits_for_a_paused_reader(worker: Worker) -> None:
    listener = Listener()
    task = asyncio.create_task(run(worker, tools.flood, listener, n=300))
    await listener.first
    worker.pause()
    await worker.stop()
    with pytest.raises(WorkerDied):
        await task
    assert not is_running(worker.pid)


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
from clicket.execution.processes.pool import ProcessPool, target_of
from tests.unit.execution import process_tools as tools

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


def start_script(tmp_path: Path, text: str, *arguments: str) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(text)
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


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
        assert is_running(copy), "the copy of the runtime, with its lifelines open, is still there"
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


# Forked copies, threads left behind -----------------------------------------------------------------------------------


async def test_a_forked_copy_does_not_answer(worker: Worker) -> None:
    assert await run(worker, tools.fork_twice_as_much) == "one of two"
    assert await run(worker, tools.add, a=1, b=2) == 3


async def test_a_forked_copy_does_not_emit(worker: Worker) -> None:
    listener = Listener()
    assert await run(worker, tools.fork_and_emit, listener) == 1
    assert listener.heard == []


async def test_a_context_is_mute_after_its_call(worker: Worker, tmp_path: Path) -> None:
    first, second = Listener(), Listener()
    assert await run(worker, tools.leave_thread, first, path=str(tmp_path / "x")) == "left"
    await run(worker, tools.wake_thread, second, path=str(tmp_path / "x"))
    assert first.heard == second.heard == []


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
    pool.release(first)  # once too often: it is not lent out twice
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


async def test_close_leaves_no_process_and_nobody_waiting() -> None:
    pool = ProcessPool(size=2, grace=0.3)
    idle, busy = await pool.acquire(), await pool.acquire()
    async with running(busy, tools.family) as (pids, task):
        waiting = asyncio.create_task(pool.acquire())
        await asyncio.sleep(0)
        await pool.close()
        assert not any(map(is_running, [*pids, idle.pid]))
        with pytest.raises(WorkerDied):
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


async def test_a_worker_that_cannot_start_is_an_error_not_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ProcessPool(size=2, warm=2)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "path", ["/nowhere"])
            for _ in range(2):
                with pytest.raises(WorkerDied, match="did not start"):
                    await pool.acquire()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", "/nowhere/python")
            with pytest.raises(WorkerDied, match="nowhere"):
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


# Targets --------------------------------------------------------------------------------------------------------------


async def test_tools_under_other_names(worker: Worker) -> None:
    assert await run(worker, tools.doubled, x=4) == 8
    assert await run(worker, tools.Box.unpack, x=4) == 5


def test_what_cannot_be_found_is_refused_with_advice() -> None:
    @tool
    def inner(x: int) -> int:
        return x

    class Native:
        name = "native"

    with pytest.raises(UsageError, match="top level"):
        target_of(inner)
    with pytest.raises(UsageError, match="function tools"):
        target_of(Native())
    with pytest.raises(UsageError, match="assign the tool"):
        target_of(tool(name="again")(tools.plain))


async def test_a_module_loaded_from_a_file_is_loaded_from_it_again(worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "plugin.py"
    file.write_text("from clicket.tools.function import tool\n@tool\ndef where() -> str:\n    return __file__\n")
    spec = importlib.util.spec_from_file_location("a_plugin_of_mine", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["a_plugin_of_mine"] = module
    try:
        spec.loader.exec_module(module)
        assert await run(worker, module.where) == str(file)
    finally:
        del sys.modules["a_plugin_of_mine"]


async def test_a_module_that_does_not_import_fails_the_call(worker: Worker) -> None:
    listener = Listener()
    with pytest.raises(ToolFailed) as caught:
        await run(worker, Target(module="no_such_module_here", qualname="x", file=None), listener)
    assert caught.value.type == "ModuleNotFoundError"
    with pytest.raises(ToolFailed, match="no tool in the worker"):
        await run(worker, Target(module=tools.__name__, qualname="plain", file=None), listener)
    assert listener.started == 0
    assert await run(worker, tools.add, a=1, b=2) == 3


MAIN = """
import asyncio, os
from clicket.execution.processes.pool import ProcessPool, ToolFailed, target_of
from clicket.tools.function import tool

class Odd(Exception):
    pass

@tool
def where(fail: bool = False) -> list:
    if fail:
        raise Odd("as asked")
    return [__name__, os.getpid()]

async def main():
    pool = ProcessPool(size=1)
    worker = await pool.acquire()
    context = dict(call_id="c", tool="t", thread="t", attempt=1, idempotency_key="k", metadata={})
    async def run(arguments):
        return await worker.run(target_of(where), arguments, context=context, started=lambda: None, message=print)
    try:
        print((await run(b"{}")).decode(), worker.pid)
        await run(b'{"fail": true}')
    except ToolFailed as error:
        print(error.module, error.type, error.message)
    finally:
        await pool.close()

"""


def test_a_tool_of_the_script_itself_is_found_by_its_file(tmp_path: Path) -> None:
    with start_script(tmp_path, MAIN + 'if __name__ == "__main__":\n    asyncio.run(main())\n') as script:
        out, _ = script.communicate(timeout=60)
    first, second = out.splitlines()
    value, pid = first.rsplit(" ", 1)
    assert json.loads(value) == ["__clicket_main__", int(pid)]
    assert second == "__main__ Odd as asked"


def test_a_script_without_a_main_guard_starts_no_more_workers(tmp_path: Path) -> None:
    with start_script(tmp_path, MAIN + "asyncio.run(main())\n") as script:
        out, _ = script.communicate(timeout=60)
    assert script.returncode == 0
    assert out.startswith("clicket.errors UsageError ")
    assert 'if __name__ == "__main__":' in out


# Trees and frames ------------------------------------------------------------------------------------------------------


def test_end_tree_finds_by_parent_and_by_token() -> None:
    command = "sleep 600 & echo $!; setsid sh -c 'echo $$; exec sleep 600' & wait"
    shell = subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE, env={tree.MARK: "t0k3n"}, text=True)
    stranger = subprocess.Popen(["/bin/sleep", "600"], env={tree.MARK: "another"})
    with shell, stranger:
        assert shell.stdout is not None
        pids = [shell.pid, int(shell.stdout.readline()), int(shell.stdout.readline())]
        root = tree.identify(shell.pid)
        assert {process.pid for process in tree.descendants(shell.pid) or ()} == set(pids[1:])
        os.kill(shell.pid, signal.SIGKILL)  # its children are nobody's now, but they bear the token
        tree.end_tree([root], "t0k3n", 5.0)
        assert not any(map(is_running, pids))
        assert is_running(stranger.pid)
        stranger.kill()


def test_a_pid_of_another_life_is_not_signalled() -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        real = tree.identify(process.pid)
        assert tree.is_alive(real)
        former = real._replace(started=real.started - 1)
        assert tree.send(former, signal.SIGKILL)
        tree.end_tree([former], "nobody", 0.0)
        assert is_running(process.pid)
        tree.send(real, signal.SIGKILL)
        process.wait()
        assert tree.send(real, signal.SIGKILL), "gone is no error"


def test_without_proc_the_group_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_table, "PROC", "/nowhere")
    command = "trap '' TERM; sleep 600 & echo $!; wait; sleep 600"
    with subprocess.Popen(
        ["/bin/sh", "-c", command], stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        tree.end_tree([tree.identify(shell.pid)], "t", 0.05)
        assert all_gone([shell.pid, child])
    with subprocess.Popen(["/bin/true"], start_new_session=True) as nobody:
        pass
    assert tree.group(nobody.pid) == []


def test_what_may_not_be_signalled_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "send", lambda process, number: False)
    tree.end(lambda: [tree.Process(1, 0)], 0.0, lambda seconds: False)


def test_frames_are_cut_wherever_they_break() -> None:
    text = header(Kind.EMIT, 5) + b'"abc"' + header(Kind.HEARTBEAT, 0) + header(Kind.OUTPUT, 2) + b"42"
    for size in range(1, len(text) + 1):
        frames, found = Frames(), []
        for start in range(0, len(text), size):
            found += [(kind, b"".join(pieces)) for kind, pieces in frames.feed(text[start : start + size])]
        assert found == [(Kind.EMIT, b'"abc"'), (Kind.HEARTBEAT, b""), (Kind.OUTPUT, b"42")]


@pytest.mark.parametrize(
    "bad", [b"\xff\xff\xff\xff\x08", b"\x00\x00\x00\x01\x63", (MAX_FRAME + 1).to_bytes(4, "big") + b"\x08"]
)
def test_what_is_no_frame_is_refused(bad: bytes) -> None:
    with pytest.raises(WireError):
        list(Frames().feed(bad))
