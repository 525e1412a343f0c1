"""The interpreter over the real sandbox, through its public API."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually

from clicket.errors import NotFound, UsageError
from clicket.interpreter import CodeState, Interpreter, Result
from clicket.interpreter.session.session import Session
from clicket.kernel import CODE
from clicket.sandbox import Limits, NotIsolated

STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("deaf", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
async def ci() -> AsyncIterator[Interpreter]:
    async with Interpreter(timeout=20, grace=0.2) as interpreter:
        yield interpreter


def message(result: Result) -> str:
    assert result.error is not None
    return result.error.message


async def until_said(ci: Interpreter, task: str, text: str) -> asyncio.Task[list[dict[str, Any]]]:
    """Start a run, and return when it has written that text."""
    said = asyncio.Event()

    async def follow() -> list[dict[str, Any]]:
        messages = []
        async for told in ci.stream(task):
            messages.append(told)
            if text in told.get("content", ""):
                said.set()
        return messages

    running = asyncio.ensure_future(follow())
    await said.wait()
    return running


async def test_a_run_brings_everything_that_it_should(ci: Interpreter) -> None:
    result = await ci.run("Six times seven:\n```python\nx = 6 * 7\nprint(x)\nx + 1\n```\n")
    assert (result.status, result.stdout, result.stderr, result.value) == ("ok", "42\n", "", "43")
    assert result.variables["x"].value == "42"
    assert result.isolation.level == "full"
    assert result.isolation == ci.isolation
    assert (result.error, result.errors, result.displays, result.files) == (None, (), (), ())
    assert result.blocks[0].lines == (1, 6)
    assert ci.history == [result]
    assert ci.state is CodeState.COMPLETED

    again = await ci.run("import json, os.path\nprint(x)\ndef f(): return g()\ndef g(): 1/0")
    assert again.stdout == "42\n"
    assert again.imports[0] == "json"
    failed = await ci.run("```\nf()\n```\n```\nprint('after', x)\n```")
    assert (failed.status, failed.fatal, failed.stdout) == ("error", False, "after 42\n")
    assert failed.error is not None
    assert failed.error.type == "ZeroDivisionError"
    assert "def g(): 1/0" in failed.error.traceback, "tracebacks show lines of an earlier run"
    assert await ci.reset() is None
    assert "name 'x' is not defined" in message(await ci.run("x"))


async def test_nothing_runs_when_a_block_does_not_parse(ci: Interpreter) -> None:
    result = await ci.run("```\nprint('first')\n```\n```\ndef (:\n```")
    assert (result.status, result.fatal, result.stdout, result.blocks) == ("error", True, "", ())
    assert result.error is not None
    assert (result.error.type, result.error.block_index, result.error.line) == ("SyntaxError", 1, 1)
    joined = await ci.run('```python\ns = """\n```\nx\n```\n"""\nprint(len(s))\n```\nprose\n```python\nprint(2)\n```')
    assert (joined.status, joined.stdout) == ("ok", "11\n2\n")
    bare = await ci.run('s = """\n```python\nnever()\n```\n"""\nprint(s.count("`"))')
    assert (bare.status, bare.stdout) == ("ok", "6\n")
    hint = await ci.run("Please add one and one.")
    assert "no fenced block" in message(hint)
    deep = await ci.run("(" * 100_000)
    assert deep.status in ("error", "crashed", "killed")
    assert (await ci.run("print(1)")).stdout == "1\n"


async def test_a_block_that_takes_too_long_is_stopped_and_the_next_one_runs() -> None:
    async with Interpreter(timeout=1, grace=20) as ci:
        result = await ci.run("```\nx = 1\nwhile True: pass\n```\n```\nprint(x)\n```")
        assert (result.status, result.reason, result.stdout) == ("interrupted", "timeout", "1\n")
        assert result.error is not None
        assert "while True: pass" in result.error.traceback


async def test_a_killed_program_takes_its_variables_with_it() -> None:
    async with Interpreter(timeout=1.5, grace=0.2) as ci:
        await ci.run("x = 1")
        killed = await ci.run(STUBBORN)
        assert (killed.status, killed.reason, killed.stdout, killed.fatal) == ("killed", "timeout", "deaf\n", True)
        assert ci.session is None
        lost = await ci.run("print(x)")
        assert (lost.status, lost.stdout) == ("session_lost", "")
        assert "reads x" in message(lost)
        assert (await ci.run("print(x)")).status == "error"


async def test_exit_and_crash(ci: Interpreter) -> None:
    left = await ci.run("```\nopen('kept.txt', 'w').write('1')\nimport sys; sys.exit(3)\n```\n```\nprint('no')\n```")
    assert (left.status, left.exit_code, left.stdout) == ("exit", 3, "")
    assert [file.name for file in left.files] == ["kept.txt"]
    fresh = await ci.run("import os; print(os.listdir())")
    assert fresh.stdout == "[]\n"
    assert "exit" in fresh.warnings[0]
    crashed = await ci.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (crashed.status, crashed.reason) == ("crashed", "SIGSEGV")
    assert (await ci.run("1")).value == "1"


async def test_files_go_in_and_come_out(ci: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("b")
    first = await ci.run(
        "import os\nos.mkdir('out')\nopen('out/sum.txt', 'w').write(open('a.csv').read() + open('sub/b.csv').read())\n"
        "os.symlink('/etc/passwd', 'link')",
        files={"a.csv": "a", "sub/b.csv": tmp_path / "b.csv"},
    )
    assert first.status == "ok"
    assert [(file.name, file.size) for file in first.files] == [("out/sum.txt", 2)]
    assert [skipped.what for skipped in first.skipped] == ["link"]
    made = first.files[0]
    assert made.sha256 == hashlib.sha256(b"ab").hexdigest()
    assert await ci.artifact(made.artifact or "") == b"ab"

    second = await ci.run("print(open('c.txt').read())", file_names=["a.csv", f"c.txt={made.artifact}"])
    assert (second.stdout, second.files) == ("ab\n", ())
    third = await ci.run("open('a.csv', 'a').write('!')")
    assert [file.name for file in third.files] == ["a.csv"]
    for names, words in ((["a.cvs"], "Did you mean 'a.csv'"), (["../x"], "plain relative name")):
        refused = await ci.run("print(1)", file_names=names)
        assert (refused.status, refused.fatal, refused.stdout) == ("error", True, "")
        assert words in message(refused)
    with pytest.raises(NotFound):
        await ci.artifact("sha256-" + "0" * 64)


async def test_only_files_of_the_shared_folder_are_given(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "data.csv").write_text("1,2\n")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "shared" / "link").symlink_to(tmp_path / "secret")
    async with Interpreter(files=tmp_path / "shared") as ci:
        assert (await ci.run("print(open('data.csv').read(), end='')", file_names=["data.csv"])).stdout == "1,2\n"
        for name in ("link", "../secret", str(tmp_path / "secret")):
            assert (await ci.run("1", file_names=[name])).fatal


async def test_long_output_is_kept_whole_beside_the_result(ci: Interpreter) -> None:
    result = await ci.run("```\nprint('x' * 3_000_000)\n```\n```\nprint('end')\n```")
    assert result.status == "ok"
    assert len(result.stdout) < 1_100_000
    assert result.stdout.endswith("end\n")
    assert await ci.artifact(result.outputs["stdout"]) == b"x" * 3_000_000 + b"\nend\n"


async def test_how_much_of_the_output_a_result_has_can_be_chosen() -> None:
    async with Interpreter(kept_output="1KiB") as ci:
        result = await ci.run("print('x' * 10_000)")
        assert len(result.stdout) < 1_200
        assert len(await ci.artifact(result.outputs["stdout"])) == 10_001


async def test_displays_that_are_big_are_artifacts_too(ci: Interpreter) -> None:
    task = "class H:\n    def _repr_html_(self): return '<i>' * 20_000\ndisplay(H())"
    result = await ci.run(task)
    html = next(display for display in result.displays if display.mime == "text/html")
    assert html.artifact is not None
    assert await ci.artifact(html.artifact) == b"<i>" * 20_000
    shown = next(display for display in result.to_json()["displays"] if display["mime"] == "text/html")
    assert shown["data"] is None


async def test_a_cancelled_run_leaves_the_session_to_the_next(ci: Interpreter) -> None:
    await ci.run("x = 1")
    running = await until_said(ci, "import time\nprint('go', flush=True)\nwhile True: time.sleep(0.01)", "go")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (ci.history[-1].status, ci.history[-1].reason) == ("interrupted", "cancel")
    assert (await ci.run("print(x)")).stdout == "1\n"


async def test_a_stubborn_program_is_gone_when_its_run_is_cancelled(ci: Interpreter) -> None:
    running = await until_said(ci, STUBBORN, "deaf")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (ci.history[-1].status, ci.history[-1].reason) == ("killed", "cancel")
    assert ci.session is None


async def test_a_stream_closed_early_stops_the_program(ci: Interpreter) -> None:
    async with aclosing(ci.stream("print('go', flush=True)\nwhile True: pass")) as messages:
        async for told in messages:
            if told["type"] == "stdout":
                break
    assert ci.history[-1].status == "interrupted"
    assert (await ci.run("1")).value == "1"


async def test_a_run_can_be_cancelled_or_interrupted_at_any_moment(ci: Interpreter) -> None:
    await ci.run("n = 0")
    session = ci.session
    for turns in range(24):
        running = asyncio.ensure_future(ci.run("n += 1"))
        for _ in range(turns % 12):
            await asyncio.sleep(0)
        if turns < 12:
            running.cancel()
            assert isinstance(
                (await asyncio.gather(running, return_exceptions=True))[0], Result | asyncio.CancelledError
            )
        else:
            await ci.interrupt()
            assert (await running).status in ("ok", "interrupted")
        assert not ci.busy
        assert (await ci.run("n")).value in map(str, range(turns + 2)), "each ran at most once"
        assert ci.session is session


async def test_a_short_run_is_reported_like_a_long_one(ci: Interpreter) -> None:
    """`run` lets the worker run a single block as soon as it compiles; `stream` goes step by step."""
    fields = ("status", "stdout", "value", "imports", "exit_code", "fatal")
    for code in (
        "import os\nx = [1]\nx",
        "print(1)\n1 / 0",
        "x = 2\n1 +",
        "print(x)",
        "print(y)",
        "raise SystemExit(3)",
    ):
        ran = await ci.run(code)
        _ = [message async for message in ci.stream(code)]
        again = ci.history[-1]
        assert [getattr(ran, name) for name in fields] == [getattr(again, name) for name in fields]
        assert (ran.error and ran.error.type) == (again.error and again.error.type)
        assert len(ran.blocks) == len(again.blocks) == (0 if code.endswith("+") else 1)


async def test_what_a_killed_block_was_about_to_make_is_missed(ci: Interpreter) -> None:
    running = asyncio.ensure_future(ci.run("table = 1\nopen('here', 'w').close()\nwhile True: pass"))
    await eventually(lambda: ci.session is not None and (ci.session.process.work / "here").exists())
    await eventually(lambda: ci.state is CodeState.MONITORING)
    ci.kill()
    assert ((await running).status, (await ci.run("table")).status) == ("killed", "session_lost")


async def test_interrupt_and_kill(ci: Interpreter) -> None:
    running = await until_said(ci, "```\nprint('go', flush=True)\nwhile True: pass\n```\n```\nprint(2)\n```", "go")
    await ci.interrupt()
    messages = await running
    assert messages[-1]["result"]["status"] == "interrupted"
    assert messages[-1]["result"]["stdout"] == "go\n"
    running = await until_said(ci, STUBBORN, "deaf")
    ci.kill()
    assert (await running)[-1]["result"]["reason"] == "cancel"


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_close_during_a_cancelled_run_can_be_repeated(turns: int) -> None:
    interpreter = await Interpreter(grace=0.2).open()
    running = asyncio.ensure_future(interpreter.run("open('here', 'w').close()\nwhile True: pass"))
    await eventually(
        lambda: interpreter.session is not None and (interpreter.session.process.work / "here").exists(),
        timeout=PATIENCE,
    )
    closing = asyncio.ensure_future(interpreter.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await closing
    await interpreter.close()
    assert interpreter.state == "error"


async def test_an_idle_session_is_closed_and_its_variables_are_missed() -> None:
    async with Interpreter(idle_after=0.05) as ci:
        await ci.run("x = 1")
        await eventually(lambda: ci.session is None)
        lost = await ci.run("x")
        assert lost.status == "session_lost"
        assert "not used" in message(lost)


async def test_memory_is_bounded() -> None:
    async with Interpreter(memory="128MiB", timeout=60) as ci:
        result = await ci.run("data = []\nwhile True: data.append(bytearray(8 << 20))")
        assert result.status in ("killed", "error")
        assert "memory" in (result.reason or "") or "MemoryError" in (result.error.type if result.error else "")


async def test_a_level_that_the_host_does_not_reach_is_refused() -> None:
    interpreter = Interpreter(require="full", without=("namespaces", "identity", "seccomp"))
    with pytest.raises(NotIsolated, match="seccomp"):
        await interpreter.open()
    await interpreter.close()


async def test_an_opening_that_is_cancelled_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for turns in (1, 5, 20):
        opening = asyncio.ensure_future(Interpreter(without=("landlock",)).open())
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert list(tmp_path.iterdir()) == []


async def test_wrong_use_is_a_clear_error() -> None:
    with pytest.raises(UsageError, match="not open"):
        await Interpreter().run("1")
    for options, words in (
        ({"timeout": 0}, "timeout must be"),
        ({"max_steps": 0}, "max_steps must be"),
        ({"idle_after": -1}, "idle_after must be"),
        ({"memory": "lots"}, "memory must be"),
        ({"require": "fully"}, "Did you mean 'full'"),
        ({"without": ["secomp"]}, "seccomp"),
    ):
        with pytest.raises(UsageError, match=words):
            async with Interpreter(**options):  # type: ignore[arg-type]
                pass
    async with Interpreter() as ci:
        for call, words in (
            (lambda: ci.run(1), "a task is text"),
            (lambda: ci.run("1", files={"a": 1}), "must be bytes"),
            (lambda: ci.run("1", file_names=[b"a"]), "names of files are text"),
        ):
            with pytest.raises(UsageError, match=words):
                await call()  # type: ignore[no-untyped-call]


async def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(os.listdir("/proc/self/fd"))
    async with Interpreter(limits=Limits(processes=16)) as ci:
        await ci.run("open('a', 'w').write('1')\nprint('x' * 2_000_000)")
    assert list(tmp_path.iterdir()) == []
    assert set(os.listdir("/proc/self/fd")) == before


async def test_a_start_that_is_cancelled_while_modules_are_loaded_leaves_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: asyncio.Queue[Session] = asyncio.Queue()

    async def load(session: Session, modules: Any, timeout: float) -> list[str]:
        started.put_nowait(session)
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # for ever

    monkeypatch.setattr(Session, "preload", load)
    async with Interpreter(preload=["json"]) as ci:
        running = asyncio.ensure_future(ci.run("1"))
        session = await started.get()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not session.alive
        assert session.process.exited.done()


async def test_shared_files_that_are_not_there_any_more_are_the_runs_affair(tmp_path: Path) -> None:
    async with Interpreter(files=tmp_path / "gone") as ci:
        refused = await ci.run("print('ran')", file_names=["a.csv"])
        assert (refused.status, refused.stdout) == ("error", "")
        assert "cannot be opened: No such file or directory" in message(refused)
        assert str(tmp_path) not in message(refused), "the message does not contain the host's folders"
        assert (await ci.run("1")).value == "1"


async def test_what_a_run_brings_out_has_bounds_that_can_be_set() -> None:
    task = "for n in range(3):\n    with open(f'{n}.txt', 'w') as f: f.write('x' * 100)"
    async with Interpreter(max_files=2) as ci:
        few = await ci.run(task)
    assert [file.name for file in few.files] == ["0.txt", "1.txt"]
    assert "2.txt" in few.skipped[0].what
    async with Interpreter(max_files_size=150) as ci:
        small = await ci.run(task)
    assert not small.files
    assert len(small.skipped) == 3
    with pytest.raises(UsageError, match="max_files must be"):
        Interpreter(max_files=0)


async def test_a_step_may_bring_its_task(ci: Interpreter) -> None:
    first = [message async for message in ci.step("print(6 * 7)")]
    assert (first[0]["from"], first[0]["to"], ci.state) == ("parsing", "validating", CodeState.VALIDATING)
    said = []
    while ci.state not in CODE.terminal:
        said += [message async for message in ci.step()]
    assert said[-1]["result"]["stdout"] == "42\n"
