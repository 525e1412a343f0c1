"""The code interpreter as any other tool of a runtime: threads, cancels, timeouts, the journal, HTTP, MCP, crashes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import ROOT, is_running
from tests.kit.waiting import eventually
from tests.mcp.kit import connected
from tests.mcp.kit import serving as serving_mcp
from tests.scenarios.cli_kit import PROGRAM, Place
from tests.scenarios.kit import assert_sound, make, sqlite_url
from tests.scenarios.server_kit import key_for, read_sse, served

from clicket import Runtime, Settings, State
from clicket.cli.load import load
from clicket.errors import UsageError
from clicket.interpreter import code_interpreter
from clicket.interpreter.tool.tool import CodeInterpreter
from clicket.sync import Runtime as SyncRuntime

NAME = "code_interpreter"
STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("deaf", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def interpreter(**options: Any) -> CodeInterpreter:
    return code_interpreter(**{"warm": False, "grace": 0.3, **options})


def runtime(tool: CodeInterpreter, store: str = "memory://", **settings: Any) -> Runtime:
    return make([tool], store, **{"cancel_grace": 5.0, **settings})


async def ran(rt: Runtime, task: str, **options: Any) -> Any:
    return await rt.call(NAME, {"task": task, **options.pop("arguments", {})}, **options)


def messages(events: Iterable[Any]) -> list[dict[str, Any]]:
    return [e.data["content"] for e in events if e.type == "output"]


def pids_of(tool: CodeInterpreter, key: Any) -> list[int]:
    session = tool.sessions[key].interpreter.session
    return [] if session is None else session.process.pids()


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listed.read_text().split()):
            found |= {child} | descendants(child)
    return found


async def until_printed(handle: Any, text: str) -> None:
    async with aclosing(handle.events()) as events:
        async for event in events:
            content = event.data.get("content")
            if isinstance(content, dict) and content["type"] == "stdout" and text in content["content"]:
                return
    raise AssertionError(f"{text!r} was not printed")


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
        assert any("is new" in notice for notice in other.output["notices"])


async def test_callers_who_use_the_same_thread_name_do_not_meet() -> None:
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
        assert (await ran(one, "x")).output["value"] == "1", "the other one closed its own sessions only"
    async with runtime(tool) as again:
        assert (await ran(again, "x")).output["error"]["type"] == "NameError"
        assert list(tool.sessions), "nobody else has it any more"


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
        assert not files[1].cached, "its file goes with the first call, so it cannot serve the second"


async def test_a_program_that_raised_or_was_stopped_is_run_again_not_served() -> None:
    async with runtime(interpreter(session="call", cache=60, timeout=0.7, grace=20)) as rt:
        for task, status in (("1 / 0", "error"), ("while True: pass", "interrupted")):
            results = [await ran(rt, task) for _ in range(2)]
            assert [(result.output["status"], result.cached) for result in results] == [(status, False)] * 2


async def test_whoever_needs_room_gets_it_and_the_one_who_made_it_is_told() -> None:
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
        assert await tool.sweep() == 0, "it is what a runtime's housekeeping calls, too"
        assert "not used" in (await ran(rt, "x", thread="one")).error.message


async def test_the_next_thread_gets_a_session_that_is_warm(tmp_path: Path) -> None:
    tool = interpreter(warm=True)
    loaded = "import sys\n[name in sys.modules for name in ('numpy', 'pandas', 'matplotlib.pyplot')]"
    fonts = "import os\nos.listdir(os.environ['MPLCONFIGDIR'])"
    async with runtime(tool) as rt:
        assert (await ran(rt, loaded, thread="one")).output["value"] == "[False, False, False]"
        (pool,) = tool._pools.values()
        assert pool._spare is not None
        await asyncio.wait([pool._spare], timeout=60)
        warm = await ran(rt, loaded, thread="two")
        assert warm.output["value"] == "[True, True, True]"
        assert not warm.output["variables"], "nothing of the warming up is left in the namespace"
        (kept,) = (tmp_path / "cache").rglob("fontlist-*.json")
        pool._warm = False
        await pool._end_spare()
        assert (await ran(rt, fonts, thread="cold")).output["value"] == repr([kept.name]), "listed once for all"


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
        assert any("so far" in record.error.message for record in exit.items), "what was printed is not lost"
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
        assert (await rt.hub("default").status(NAME)).consecutive_failures == 0, "it was the program that took long"


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
        sys.executable, "-m", "tests.scenarios.interpreter_child", store, "t", marked, stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert child.stdout is not None
        id, said = (await asyncio.wait_for(child.stdout.readline(), 60)).decode().split()
        assert said == "begun"
        sandboxed = descendants(child.pid)
        assert sandboxed
    finally:
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
    await eventually(lambda: not any(map(is_running, sandboxed)))
    async with runtime(interpreter(timeout=0.5, grace=20), store) as rt:
        record = await eventually(lambda: ended(rt, id), timeout=30)
        assert record.state is State.COMPLETED
        assert len(record.attempts) == 2
        assert record.output["status"] == "interrupted"


async def ended(rt: Runtime, id: str) -> Any:
    record = await rt.get(id)
    return record if record.state.is_terminal else None


# The journal.


async def test_the_journal_has_the_messages_in_order_and_progress_by_block(store: str) -> None:
    task = "```python\n_ = [print(i) for i in range(3000)]\n```\n```python\ny = 2\n1 / 0\n```\n```python\ny\n```"
    async with runtime(interpreter(), store) as rt:
        result = await ran(rt, task)
        record = await rt.get(result.call_id)
        assert_sound(record)
        said = messages(record.events)
        kinds = [m["type"] for m in said if m["type"] not in ("state_change", "stdout")]
        assert kinds == [
            "progress",
            "code_execution_start", "code_execution_complete",
            "code_execution_start", "variable_created", "execution_error", "code_execution_error",
            "code_execution_start", "code_execution_complete",
            "final_result",
        ]  # fmt: skip
        printed = [m for m in said if m["type"] == "stdout"]
        assert "".join(m["content"] for m in printed) == "".join(f"{i}\n" for i in range(3000))
        assert len(printed) < 50
        changes = [m["to"] for m in said if m["type"] == "state_change"]
        assert changes[:3] == ["validating", "preparing", "executing"]
        assert changes[-2:] == ["collecting", "completed"]
        assert [m["timestamp"] for m in said] == sorted(m["timestamp"] for m in said)
        steps = [e.data["step"] for e in record.events if e.type == "progress"]
        assert steps == sorted(steps)
        assert record.progress is not None
        assert record.progress["percentage"] == 100
        assert said[-1]["result"]["value"] == result.output["value"] == "2"


async def test_a_flood_of_output_leaves_room_for_what_the_run_says_itself() -> None:
    async with runtime(interpreter()) as rt:
        result = await ran(rt, "for i in range(300_000): print('x' * 20)")
        record = await rt.get(result.call_id)
        said = messages(record.events)
        assert said[-1]["type"] == "final_result"
        omitted = sum(m.get("omitted", 0) for m in said)
        shown = sum(len(m["content"]) for m in said if m["type"] == "stdout")
        assert omitted + shown == 300_000 * 21
        assert len(await rt.artifact(result.output["outputs"]["stdout"])) == 300_000 * 21
        assert len(result.content) < 100_000, "a model reads it"


# Files, figures, doors.


async def test_files_come_in_as_artifacts_and_go_out_as_artifacts_of_their_caller() -> None:
    async with served([interpreter()]) as it:
        ann, bob = await key_for(it, "ann", "call", "read"), await key_for(it, "bob", "call", "read")
        sent = (await it.post("/artifacts", content=b"a,b\n1,2\n", headers=ann)).json()["id"]
        task = "import csv\nrows = list(csv.DictReader(open('in.csv')))\nopen('out.txt', 'w').write(rows[0]['b'])"
        arguments = {"task": task, "file_names": [f"in.csv={sent}"]}
        done = (await it.call(NAME, arguments, headers=ann)).json()
        assert done["output"]["status"] == "ok", done
        (file,) = [f for f in done["output"]["files"] if f["name"] == "out.txt"]
        assert (await it.get(f"/artifacts/{file['artifact']}", headers=ann)).text == "2"
        assert (await it.get(f"/artifacts/{file['artifact']}", headers=bob)).status_code == 404
        refused = (await it.call(NAME, arguments, headers=bob)).json()
        assert refused["state"] == "failed"
        assert sent in refused["error"]["message"]


async def test_messages_come_live_over_http() -> None:
    async with served([interpreter()]) as it:
        task = "import time\nprint('first', flush=True)\nwhile True: time.sleep(0.05)"
        made = await it.post("/calls", json={"tool": NAME, "arguments": {"task": task}})
        id = made.json()["id"]
        said = []
        async with it.stream("GET", f"/calls/{id}/events") as response:
            async for event in read_sse(response):
                content = event["data"]["data"].get("content")
                if isinstance(content, dict):
                    said.append(content["type"])
                    if content["type"] == "stdout":
                        assert content["content"] == "first\n"
                        assert (await it.post(f"/calls/{id}/cancel")).status_code == 200
        assert said[:2] == ["state_change", "progress"]
        assert "stdout" in said
        assert (await it.get(f"/calls/{id}")).json()["state"] == "cancelled"


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 30_000).decode()
SHOW = f"""
import base64
class Figure:
    def _repr_png_(self): return base64.b64decode({PNG!r})
display(Figure())
"""


async def test_figures_are_pictures_for_clients_of_mcp() -> None:
    async with runtime(interpreter()) as rt, serving_mcp(rt) as url, connected(url) as client:
        seen: list[tuple[float, float | None]] = []

        async def progress(step: float, total: float | None, message: str | None) -> None:
            seen.append((step, total))

        result = await client.call_tool(NAME, {"task": SHOW}, progress_callback=progress)
        assert not result.is_error
        await eventually(lambda: seen[-1:] == [(1, 1)])
        assert [step for step, _ in seen] == sorted({step for step, _ in seen}), "blocks, and numbers that grow"
        text, picture = result.content
        assert json.loads(text.text)["displays"][0]["artifact"].startswith("sha256-")
        assert (picture.type, picture.mime_type) == ("image", "image/png")
        assert picture.data == PNG
        wrong = await client.call_tool(NAME, {"task": "import sys\nsys.exit(1)"})
        assert wrong.is_error


# Finding it.


def test_a_command_finds_the_tool_by_name_and_by_the_settings_file(tmp_path: Path) -> None:
    place = Place(tmp_path, "memory://", "")
    named = place.run("call", NAME, "task=6 * 7", "--tools", "clicket.interpreter:code_interpreter", "--json")
    assert json.loads(named.stdout)["output"]["value"] == "42", named.stderr
    assert [tool.name for tool in load("clicket.interpreter")] == [NAME]
    (tmp_path / "clicket.toml").write_text('[interpreter]\nrequire = "partial"\nmax_steps = 1\nwarm = false\n')
    found = place.inside("call", NAME, "task=```python\n1\n```\n```python\n2\n```\n")
    assert found.returncode == 1
    assert "2 Python blocks" in found.stderr
    (tmp_path / "clicket.toml").write_text("[interpreter]\nmax_step = 1\n")
    wrong = place.inside("tools")
    assert wrong.returncode == 2
    assert "max_steps" in wrong.stderr


def test_a_tool_with_other_options_leaves_the_first_as_it_was() -> None:
    other = code_interpreter(name="py", call_timeout=10, options={"tags": ["x"]})
    assert (other.name, other.options.timeout, other.options.tags) == ("py", 10, {"x"})
    assert (code_interpreter.name, code_interpreter.options.timeout) == (NAME, 300)
    assert other(memory="2GiB").name == "py"
    assert "is there in the next" in code_interpreter.description
    assert "starts afresh" in code_interpreter(session="call").description
    assert code_interpreter(description="mine").description == "mine"
    with pytest.raises(UsageError, match="Did you mean 'memory'"):
        code_interpreter(memry="2GiB")
