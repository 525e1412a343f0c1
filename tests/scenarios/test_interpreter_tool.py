"""The code interpreter like any other tool of a runtime: threads, cancellation, timeouts, the journal, HTTP, MCP, crashes."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.kit.children import ROOT, is_running
from tests.kit.forks import forked
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.cli_kit import PROGRAM
from tests.scenarios.interpreter_kit import (
    NAME,
    STUBBORN,
    cache_home,  # noqa: F401 -- a fixture for every test here
    descendants,
    ended,
    interpreter,
    pids_of,
    ran,
    runtime,
    until_printed,
)
from tests.scenarios.kit import assert_sound, make, sqlite_url

from clicket import Settings, State
from clicket.sync import Runtime as SyncRuntime

# Sessions.


async def test_what_a_call_defines_is_there_for_the_next_of_its_thread_alone(store: str) -> None:
    async with runtime(interpreter(), store) as rt:
        first = await ran(rt, "Some prose.\n```python\nx = 6 * 7\nprint(x)\n```\n", thread="one")
        assert first.output["status"] == "ok"
        assert first.output["stdout"] == "42\n"
        assert first.output["variables"] == [{"name": "x", "type": "int", "value": "42", "change": "created"}]
        assert first.output["isolation"]["level"] == "full"
        assert (await ran(rt, "x + 1", thread="one")).output["value"] == "43"
        other = await ran(rt, "x", thread="two")
        assert other.state is State.COMPLETED
        assert other.output["error"]["type"] == "NameError"
        assert any("is new" in warning for warning in other.output["warnings"])


async def test_callers_with_the_same_thread_name_are_separate() -> None:
    tool = interpreter()
    async with runtime(tool) as rt:
        ann, bob = rt.acting_for("ann"), rt.acting_for("bob")
        await ran(ann, "secret = 'hers'\nopen('kept.txt', 'w').write(secret)", thread="t")
        assert (await ran(bob, "secret", thread="t")).output["error"]["type"] == "NameError"
        assert (await ran(bob, "import os\nos.listdir()", thread="t")).output["value"] == "[]"
        assert (await ran(ann, "secret", thread="t")).output["value"] == "'hers'"
        assert sorted(tool.sessions) == [("ann", "t"), ("bob", "t")]  # type: ignore[type-var]
    assert not tool.sessions


async def test_two_runtimes_with_the_same_tool_do_not_meet() -> None:
    tool = interpreter()
    async with runtime(tool) as one:
        async with runtime(tool) as other:
            assert (await ran(one, "x = 1")).output["status"] == "ok"
            assert (await ran(other, "x")).output["error"]["type"] == "NameError"
        assert (await ran(one, "x")).output["value"] == "1", "the other runtime closed its own sessions only"
    async with runtime(tool) as again:
        assert (await ran(again, "x")).output["error"]["type"] == "NameError"
        assert list(tool.sessions), "the new runtime has its own session"


async def test_a_session_per_call_keeps_nothing_and_only_then_results_are_cached() -> None:
    alone, shared = interpreter(session="call", cache=60), interpreter(cache=60, name="kept")
    async with make([alone, shared]) as rt:
        assert (await ran(rt, "x = 1")).output["status"] == "ok"
        assert (await ran(rt, "x")).output["error"]["type"] == "NameError"
        task = "import random\nrandom.random()"
        first, second = await ran(rt, task), await ran(rt, task)
        assert (first.cached, second.cached) == (False, True)
        assert first.output["value"] == second.output["value"]
        kept = [await rt.call("kept", {"task": task}) for _ in range(2)]
        assert not kept[1].cached
        assert kept[0].output["value"] != kept[1].output["value"]
        files = [await ran(rt, "open('a.txt', 'w').write('a')") for _ in range(2)]
        assert not files[1].cached, "its file belongs to the first call, so it cannot serve the second"


async def test_a_program_that_raised_or_was_stopped_is_run_again_not_served() -> None:
    async with runtime(interpreter(session="call", cache=60, timeout=0.7, grace=20)) as rt:
        for task, status in (("1 / 0", "error"), ("while True: pass", "interrupted")):
            results = [await ran(rt, task) for _ in range(2)]
            assert [(result.output["status"], result.cached) for result in results] == [(status, False)] * 2


async def test_a_new_session_evicts_an_old_one_and_the_old_thread_learns_it() -> None:
    async with runtime(interpreter(max_sessions=1)) as rt:
        await ran(rt, "x = 1", thread="one")
        assert (await ran(rt, "2", thread="two")).output["value"] == "2"
        lost = await ran(rt, "x", thread="one")
        assert lost.error.code == "tool_error"
        assert "session_lost" in lost.error.message
        assert "least recently used" in lost.error.message
        assert (await ran(rt, "x = 3\nx", thread="one")).output["value"] == "3"


async def test_idle_sessions_are_closed_soon_after_their_time() -> None:
    tool = interpreter(idle_after=1)
    async with runtime(tool) as rt:
        await ran(rt, "x = 1", thread="one")
        pids = pids_of(tool, "one")
        assert pids
        await eventually(lambda: not any(map(is_running, pids)))
        assert await tool.sweep() == 0, "the runtime's housekeeping calls it, too"
        assert "not used" in (await ran(rt, "x", thread="one")).error.message


async def test_a_later_thread_gets_a_session_that_is_warm(tmp_path: Path) -> None:
    loaded = "import sys\n[name in sys.modules for name in ('numpy', 'pandas', 'matplotlib.pyplot')]"
    fonts = "import os\nos.listdir(os.environ['MPLCONFIGDIR'])"
    async with runtime(interpreter(warm=True)) as rt:
        assert (await ran(rt, loaded, thread="one")).output["value"] == "[False, False, False]"

        async def warm() -> bool:
            result = await ran(rt, loaded, thread=f"thread {next(numbers)}")
            assert not result.output["variables"], "warming up leaves no variables"
            return bool(result.output["value"] == "[True, True, True]")

        numbers = itertools.count()
        await eventually(warm)
        (kept,) = (tmp_path / "cache").rglob("fontlist-*.json")
    async with runtime(interpreter(warm=False)) as rt:
        assert (await ran(rt, fonts, thread="cold")).output["value"] == repr([kept.name]), "one list for all"


def test_the_blocking_face_runs_programs_too() -> None:
    settings = Settings(store="memory://")
    with SyncRuntime([interpreter()], settings=settings) as rt:
        assert rt.call(NAME, {"task": "x = 20"}).success
        assert rt.call(NAME, {"task": "x + 1"}).output["value"] == "21"


# Endings.


async def test_endings_of_programs_and_what_they_weigh() -> None:
    async with runtime(interpreter(max_output="1MiB", memory="128MiB", timeout=20)) as rt:
        endings = [
            ("print('before')\n1 / 0", State.COMPLETED, "ZeroDivisionError"),
            ("def f(:\n", State.FAILED, "SyntaxError"),
            ("import sys\nprint('so far')\nsys.exit(3)", State.FAILED, "exit"),
            ("import os\nos.abort()", State.FAILED, "crashed (SIGABRT)"),
            ("while True:\n    print('y' * 1000)", State.FAILED, "killed (output)"),
            ("```python\n1\n```\n" * 11, State.FAILED, "10"),
            ("```sh\nls\n```\n", State.FAILED, "python"),
        ]
        for task, state, said in endings:
            result = await ran(rt, task)
            assert result.state is state, (task, result)
            if state is State.COMPLETED:
                assert result.output["status"] == "error"
                assert result.output["error"]["type"] == said
            else:
                assert result.error.code == "tool_error"
                assert not result.error.retryable
                assert said in result.error.message, result.error.message
            assert_sound(await rt.get(result.call_id))
        exit = await rt.history(tool=NAME, state="failed")
        assert any("so far" in record.error.message for record in exit.items), "the output so far is kept"
        health = await rt.hub("default").status(NAME)
        assert health.status == "available"
        assert health.consecutive_failures == 0
        row = (await rt.report(NAME)).tools[NAME]
        assert (row.total, row.success, row.failed) == (7, 1, 6)
        assert (await ran(rt, "1 + 1")).output["value"] == "2"


async def test_a_sandbox_that_is_not_there_is_a_failure_of_the_tool() -> None:
    async with runtime(interpreter(without=["namespaces"])) as rt:
        results = [await ran(rt, "1", thread="t") for _ in range(4)]
        assert [r.error.code for r in results] == ["tool_error"] * 3 + ["tool_unavailable"]
        assert results[0].error.type == "NotIsolated"
        assert "namespaces" in results[0].error.message


# Stopping.


async def test_a_cancel_from_another_process_ends_the_program(tmp_path: Path) -> None:
    tool, store = interpreter(), sqlite_url(tmp_path)
    async with runtime(tool, store) as rt:
        handle = await rt.submit(NAME, {"task": f"import subprocess\nsubprocess.Popen(['sleep', '600'])\n{STUBBORN}"})
        await until_printed(handle, "deaf")
        pids = pids_of(tool, "default")
        assert len(pids) >= 2
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "cancel", handle.id, "--store", store, stdout=subprocess.DEVNULL, cwd=tmp_path
        )
        assert await process.wait() == 0
        assert (await handle.result()).state is State.CANCELLED
        await eventually(lambda: not any(map(is_running, pids)))
        assert (await ran(rt, "1 + 1")).output["value"] == "2"


async def test_a_cancel_of_a_program_that_listens_keeps_its_variables() -> None:
    async with runtime(interpreter(grace=20)) as rt:
        await ran(rt, "x = 1")
        handle = await rt.submit(NAME, {"task": "print('on', flush=True)\nwhile True: pass"})
        await until_printed(handle, "on")
        assert await rt.cancel(handle.id)
        assert (await handle.result()).state is State.CANCELLED
        assert (await ran(rt, "x")).output["value"] == "1"


async def test_a_call_that_takes_too_long_ends_with_its_program() -> None:
    tool = interpreter(call_timeout=2.5)
    async with runtime(tool) as rt:
        handle = await rt.submit(NAME, {"task": STUBBORN})
        await until_printed(handle, "deaf")
        pids = pids_of(tool, "default")
        assert (await handle.result()).state is State.TIMEOUT
        await eventually(lambda: not any(map(is_running, pids)))
        assert (await rt.hub("default").status(NAME)).consecutive_failures == 0, "the program was slow, not the tool"


async def test_a_block_that_takes_too_long_is_interrupted_and_the_rest_runs() -> None:
    async with runtime(interpreter(timeout=1, grace=20)) as rt:
        result = await ran(rt, "```python\nx = 1\nwhile True: pass\n```\n```python\nx + 1\n```\n")
        assert result.state is State.COMPLETED
        assert result.output["status"] == "interrupted"
        assert result.output["value"] == "2"


async def test_closing_the_runtime_ends_programs() -> None:
    tool = interpreter()
    rt = runtime(tool)
    await rt.open()
    handle = await rt.submit(NAME, {"task": STUBBORN})
    await until_printed(handle, "deaf")
    pids = pids_of(tool, "default")
    await rt.close(patience=0)
    await eventually(lambda: not any(map(is_running, pids)))


async def test_a_killed_runtime_leaves_no_program_and_the_next_one_runs_it_again(tmp_path: Path) -> None:
    store, marked = sqlite_url(tmp_path), "import os, time\nprint('begun', flush=True)\ntime.sleep(600)"
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *forked("tests.scenarios.interpreter_child"),
        "-m",
        "tests.scenarios.interpreter_child",
        store,
        "t",
        marked,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert child.stdout is not None
        id, said = (await asyncio.wait_for(child.stdout.readline(), PATIENCE)).decode().split()
        assert said == "begun"
        sandboxed = descendants(child.pid)
        assert sandboxed
    finally:
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
    await eventually(lambda: not any(map(is_running, sandboxed)))
    async with runtime(interpreter(timeout=0.5, grace=20), store) as rt:
        record = await eventually(lambda: ended(rt, id))
        assert record.state is State.COMPLETED
        assert len(record.attempts) == 2
        assert record.output["status"] == "interrupted"
