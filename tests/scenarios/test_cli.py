"""The command line as people and programs use it: real processes, real signals, real exit codes."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clicket.cli import main
from clicket.cli.commands.call import read_arguments
from clicket.cli.commands.ps import remark
from clicket.cli.render import bars_of
from clicket.cli.terminal import clean
from clicket.cli.words import duration, parse_duration, shortened, size, what_happened
from clicket.errors import UsageError
from clicket.kernel import State
from clicket.model import Event, Record, fold

TOOLS = '''
import asyncio, os
from clicket import RetryableError, ToolContext, tool

def plain(text: str) -> str:
    return text.upper()

@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b

@tool
async def gate(path: str, fail: bool = False):
    """Says that it runs, and ends when the file is there."""
    yield "open\\n"
    while not os.path.exists(path):
        await asyncio.sleep(0.01)
    if fail:
        raise ValueError("told to fail")
    yield "shut\\n"

@tool(max_retries=1, retry_delay=0.05)
async def flaky(ctx: ToolContext) -> str:
    """Fails once."""
    if ctx.attempt == 1:
        raise RetryableError("not yet")
    ctx.progress(1, 2, "half")
    return "ok"

@tool
def boom() -> str:
    """Breaks."""
    raise KeyError("\\x1b]0;gotcha\\x07 [red]text[/red]")

@tool
def wild() -> str:
    """Text that would move a terminal's cursor."""
    return "\\x1b[2Jcleared"

@tool(max_result_size=200)
def big(size: int) -> str:
    """Too much for a model."""
    return "x" * size
'''
PROGRAM = (sys.executable, "-m", "clicket")
Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user stands: a module of tools, and nothing else."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "cli_tools.py").write_text(TOOLS)
    monkeypatch.chdir(place)
    for name in [name for name in os.environ if name.startswith("CLICKET_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("COLUMNS", raising=False)  # a test runner's width is not the user's
    monkeypatch.setenv("CLICKET_TOOLS", "cli_tools")
    monkeypatch.setenv("NO_COLOR", "1")
    return place


@pytest.fixture
def run(folder: Path) -> Run:
    def go(*arguments: str, given: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *arguments], cwd=folder, env={**os.environ, **environment}, input=given,
            stdin=subprocess.DEVNULL if given is None else None, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    return go


@pytest.fixture
def inside(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same without a new process, for what needs none."""

    def go(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            code = main(arguments)
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return go


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start a command and leave it running; whatever is left at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def go(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield go
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """JSON lines of a process, up to the first that is wanted."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if wanted(seen[-1]):
            return seen
    raise AssertionError(f"ended before that: {seen} {process.communicate()[1]}")


def is_output(event: dict[str, Any]) -> bool:
    return event["type"] == "output"


def is_end(event: dict[str, Any]) -> bool:
    return event["type"] == "state_changed" and State(event["state"]).is_terminal


def no_traceback(done: subprocess.CompletedProcess[str]) -> bool:
    return "Traceback" not in done.stdout + done.stderr


class TestCall:
    def test_pairs_json_and_stdin_give_the_same(self, run: Run) -> None:
        for arguments, given in ((["a=1", "b=2"], None), (['{"a": 1, "b": 2}'], None), (["-"], '{"a": 1, "b": 2}')):
            done = run("call", "add", *arguments, given=given)
            assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
            assert "completed" in done.stderr

    def test_json_is_the_result(self, run: Run) -> None:
        done = run(
            "call",
            "add",
            "a=1",
            "b=2",
            "--json",
            "--id",
            "one",
            "--thread",
            "t1",
            "--timeout",
            "5s",
            "--deadline",
            "1m",
        )
        result = json.loads(done.stdout)
        assert done.returncode == 0
        assert (result["call_id"], result["state"], result["output"], result["success"]) == (
            "one",
            "completed",
            3,
            True,
        )
        assert list(result["stages"]) == ["find", "authorize", "validate", "execute", "process", "persist"]
        assert done.stderr == ""
        record = json.loads(run("show", "one", "--json").stdout)
        assert (record["thread"], record["timeout"], record["deadline"]) == ("t1", 5.0, 60.0)

    def test_failed_call_exits_1_and_says_why(self, run: Run) -> None:
        done = run("call", "boom")
        assert done.returncode == 1
        assert done.stdout == ""
        assert "tool_error: KeyError:" in done.stderr
        assert "[red]text[/red]" in done.stderr  # not taken for our own markup
        assert "\x1b" not in done.stderr
        assert no_traceback(done)

        refused = run("--json", "call", "add", "a=x")
        error = json.loads(refused.stdout)["error"]
        assert refused.returncode == 1
        assert error["code"] == "invalid_input"
        assert len(error["details"]["problems"]) == 2
        assert error["details"]["problems"][0].keys() >= {"path", "message"}

    def test_unknown_tool_is_recorded_and_near_misses_named(self, run: Run) -> None:
        done = run("call", "ad", "a=1")
        assert done.returncode == 1
        assert "Did you mean 'add'?" in done.stderr

    def test_same_id_is_the_same_call_and_other_arguments_a_conflict(self, run: Run) -> None:
        assert run("call", "add", "a=1", "b=2", "--id", "x").stdout == "3\n"
        assert run("call", "add", "a=1", "b=2", "--id", "x").stdout == "3\n"
        other = run("call", "add", "a=5", "b=2", "--id", "x")
        assert other.returncode == 2
        assert "error conflict" in other.stderr
        assert len(json.loads(run("ps", "--all", "--json").stdout)["calls"]) == 1

    def test_retries_are_told_while_they_happen(self, run: Run) -> None:
        done = run("call", "flaky")
        assert (done.returncode, done.stdout) == (0, "ok\n")
        assert "not yet; attempt 2 in" in done.stderr
        assert "2 attempts" in done.stderr

    def test_pipe_gets_the_whole_of_a_big_result(self, run: Run) -> None:
        done = run("call", "big", "size=5000")
        assert done.stdout == "x" * 5000 + "\n"
        assert "cut for the model" in done.stderr

    def test_stream_prints_as_it_comes(self, start: Start, folder: Path) -> None:
        process = start("call", "gate", "path=go", "--stream")
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        (folder / "go").touch()
        assert process.communicate(timeout=30)[0].split() == ["shut"]
        assert process.returncode == 0

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupt_cancels_the_call_and_exits_130(self, start: Start, run: Run, number: int) -> None:
        process = start("call", "gate", "path=never", "--id", "held", "--stream", "--json")
        read_until(process, is_output)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "Traceback" not in err
        assert json.loads(out[out.index("{\n") :])["state"] == "cancelled"
        record = json.loads(run("show", "held", "--json").stdout)
        assert (record["state"], record["error"]["code"]) == ("cancelled", "cancelled")

    def test_terminal_gets_live_output_and_no_foreign_controls(self, folder: Path) -> None:
        assert "\x1b[2J" not in in_terminal(folder, "call", "wild")
        assert "[2Jcleared" in in_terminal(folder, "call", "wild")
        seen = in_terminal(folder, "call", "flaky")
        assert "half" in seen  # the moving line
        assert "100 %" in seen
        assert "2 attempts" in seen


def in_terminal(folder: Path, *arguments: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        [*PROGRAM, *arguments], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    while True:
        select.select([ours], [], [], 60)
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    process.wait(30)
    return written.decode()


class TestOtherProcesses:
    def test_cancel_ends_a_call_of_another_process(self, start: Start, run: Run) -> None:
        process = start("call", "gate", "path=never", "--id", "theirs", "--stream", "--json")
        read_until(process, is_output)
        listed = json.loads(run("ps", "--json").stdout)["calls"]
        assert [(call["id"], call["state"]) for call in listed] == [("theirs", "streaming")]
        drawn = run("show", "theirs").stdout
        assert "▶" in drawn
        assert "still running" in drawn
        done = run("cancel", "thei", "--reason", "enough", "--wait", "20s", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout) == {
            "id": "theirs", "thread": "default", "requested": True, "cancelled": True, "state": "cancelled",
        }  # fmt: skip
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 1
        assert json.loads(out.splitlines()[-1])["error"]["message"] == "the call was cancelled: enough"
        again = run("cancel", "theirs")
        assert again.returncode == 1
        assert "had ended already" in again.stderr

    @pytest.mark.parametrize(("fail", "code"), [("false", 0), ("true", 1)])
    def test_tail_follows_to_the_end(self, start: Start, folder: Path, fail: str, code: int) -> None:
        process = start("call", "gate", "path=go", f"fail={fail}", "--id", "theirs", "--stream", "--json")
        read_until(process, is_output)
        tail = start("tail", "theirs", "--json")
        seen = read_until(tail, is_output)
        (folder / "go").touch()
        seen += read_until(tail, is_end)
        assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
        assert tail.wait(30) == code
        assert process.wait(30) == code

    def test_tail_of_all_calls_sees_those_that_come_later(self, start: Start, run: Run) -> None:
        run("call", "add", "a=1", "b=1")
        tail = start("tail", "--json")
        held = start("call", "gate", "path=never", "--id", "held")
        read_until(tail, lambda event: event["call_id"] == "held" and is_output(event))
        assert run("call", "add", "a=1", "b=1", "--id", "later").returncode == 0
        read_until(tail, lambda event: event["call_id"] == "later" and is_end(event))
        tail.send_signal(signal.SIGINT)
        _, err = tail.communicate(timeout=30)
        assert tail.returncode == 130
        assert "Traceback" not in err
        held.send_signal(signal.SIGINT)
        assert held.wait(30) == 130

    def test_watching_recovers_nothing_and_calling_does(self, start: Start, run: Run) -> None:
        process = start("call", "gate", "path=never", "--id", "lost", "--stream", "--json")
        read_until(process, is_output)
        process.kill()
        process.wait()
        for command in (["ps"], ["show", "lost"], ["gc"], ["doctor"]):
            assert run(*command).returncode == 0
        assert json.loads(run("show", "lost", "--json").stdout)["state"] == "streaming"
        asked = run("cancel", "lost", "--wait", "0")
        assert asked.returncode == 0
        assert "the request is on record" in asked.stderr
        run("call", "add", "a=1", "b=1")
        assert json.loads(run("show", "lost", "--json").stdout)["state"] in ("failed", "cancelled")


class TestLooking:
    def test_no_store_yet_is_said_and_not_made(self, inside: Run, folder: Path) -> None:
        listed = inside("ps")
        assert listed.returncode == 0
        assert "there is no store" in listed.stderr
        assert json.loads(inside("ps", "--json").stdout) == {"calls": [], "cursor": None}
        for command in (["show", "x"], ["tail", "x"], ["cancel", "x"]):
            done = inside(*command)
            assert done.returncode == 2
            assert "there is no store" in done.stderr
        assert json.loads(inside("gc", "--json").stdout)["calls"] == 0
        assert [path.name for path in folder.iterdir() if path.name.startswith(".clicket")] == []

    def test_ps_filters_and_pages(self, inside: Run) -> None:
        inside("call", "add", "a=1", "b=2", "--thread", "anna", "--id", "first")
        inside("call", "boom", "--thread", "ben", "--id", "second")

        def ids(*options: str) -> list[str]:
            return [call["id"] for call in json.loads(inside("ps", "--json", *options).stdout)["calls"]]

        assert ids() == []
        assert ids("--all") == ["second", "first"]
        assert ids("--all", "--thread", "anna") == ids("--all", "--tool", "add") == ["first"]
        assert ids("--state", "failed") == ["second"]
        page = json.loads(inside("ps", "--all", "--limit", "1", "--json").stdout)
        assert ids("--all", "--cursor", page["cursor"]) == ["first"]
        table = inside("ps", "--all").stdout
        assert "KeyError" in table
        assert "completed" in table
        assert "\x1b" not in table

    def test_show_draws_the_timeline(self, inside: Run) -> None:
        inside("call", "flaky", "--id", "flaky-1")
        inside("call", "flaky", "--id", "flaky-2")
        shown = inside("show", "flaky-1", "--events").stdout
        for word in (
            "find",
            "authorize",
            "validate",
            "execute",
            "attempt 1",
            "backoff",
            "attempt 2",
            "process",
            "persist",
        ):
            assert word in shown
        assert "█" in shown
        assert "░" in shown
        assert "Result\n  ok" in shown
        assert "attempt_started" in shown
        assert "flaky-2" in inside("show").stdout
        ambiguous = inside("show", "flaky")
        assert ambiguous.returncode == 2
        assert "2 calls begin with 'flaky'" in ambiguous.stderr
        missing = inside("show", "nothing")
        assert missing.returncode == 2
        assert "clicket ps --all" in missing.stderr
        record = json.loads(inside("show", "flaky-1", "--json").stdout)
        assert [event["seq"] for event in record["events"]] == list(range(1, len(record["events"]) + 1))

    def test_show_of_a_narrow_encoding_has_no_block_characters(self, run: Run) -> None:
        run("call", "add", "a=1", "b=2")
        done = run("show", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
        assert done.returncode == 0
        assert "#" in done.stdout
        assert done.stdout.isascii()

    def test_tools_config_gc(self, inside: Run, folder: Path) -> None:
        listed = json.loads(inside("tools", "--json").stdout)["tools"]
        assert [each["name"] for each in listed] == ["add", "gate", "flaky", "boom", "wild", "big"]
        assert "path [fail]" in inside("tools").stdout
        assert json.loads(inside("tools", "add", "--json").stdout)["input_schema"]["required"] == ["a", "b"]
        assert '"additionalProperties": false' in inside("tools", "add").stdout
        wrong = inside("tools", "ad")
        assert wrong.returncode == 2
        assert "Did you mean 'add'?" in wrong.stderr

        (folder / "clicket.toml").write_text("retention = 60.0\nlease = 5.0\n")
        settings = json.loads(inside("config", "--json", "--store", "sqlite:///here.db", CLICKET_LEASE="7").stdout)
        assert settings["retention"] == {"value": 60.0, "origin": "clicket.toml"}
        assert settings["lease"] == {"value": 7.0, "origin": "CLICKET_LEASE"}
        assert settings["store"] == {"value": "sqlite:///here.db", "origin": "argument"}
        assert settings["durability"] == {"value": "process", "origin": "default"}
        assert "clicket.toml" in inside("config").stdout

        inside("call", "add", "a=1", "b=2")
        assert json.loads(inside("gc", "--json").stdout)["calls"] == 0
        assert json.loads(inside("gc", "--older-than", "0", "--dry-run", "--json").stdout)["calls"] == 1
        assert "removed 1 calls" in inside("gc", "--older-than", "0").stdout
        assert json.loads(inside("ps", "--all", "--json").stdout)["calls"] == []

    def test_doctor_and_bench(self, inside: Run, folder: Path) -> None:
        checks = json.loads(inside("doctor", "--json").stdout)
        assert checks["ok"], checks
        assert {"python", "SQLite", "store", "write and read", "process isolation", "event loop"} <= {
            check["name"] for check in checks["checks"]
        }
        (folder / "wrong.db").write_text("this is no database, and never was one; it is a text")
        sick = inside("doctor", "--store", "sqlite:///wrong.db")
        assert sick.returncode == 3
        assert "✗ store" in sick.stdout
        figures = json.loads(inside("bench", "--seconds", "0.1", "--json").stdout)["figures"]
        assert [(figure["store"], figure["durability"]) for figure in figures] == [
            ("memory", "none"), ("sqlite", "process"), ("sqlite", "power"),
        ]  # fmt: skip
        assert all(0 < figure["p50"] <= figure["p99"] for figure in figures)

    def test_show_of_what_went_wrong(self, inside: Run) -> None:
        inside("call", "add", '{"a": "x", "c": 1}', "--id", "refused")
        shown = inside("show", "refused").stdout
        assert "refused (invalid_input)" in shown
        assert "/a  " in shown
        assert "clicket tools add" in shown
        inside("call", "boom", "--id", "broken")
        shown = inside("show", "broken", "--events").stdout
        assert "tool_error  KeyError" in shown
        assert "\x1b" not in shown
        inside("call", "big", "size=5000", "--id", "cut")
        assert "the whole is artifact sha256-" in inside("show", "cut").stdout
        inside("call", "big", "size=5000", "--id", "cut", "--json")

    def test_tail_of_an_ended_call_tells_it_again(self, inside: Run) -> None:
        inside("call", "flaky", "--id", "one")
        told = inside("tail", "one")
        assert told.returncode == 0
        assert "attempt 2 in" in told.stdout
        assert "1/2  half" in told.stdout
        later = inside("tail", "one", "--after", "5", "--json").stdout.splitlines()
        assert json.loads(later[0])["seq"] == 6
        inside("call", "boom", "--id", "two")
        assert inside("tail", "two").returncode == 1

    def test_bench_and_gc_in_words(self, inside: Run) -> None:
        table = inside("bench", "--seconds", "0.1").stdout
        assert "kill -9" in table
        assert "calls/s" in table
        inside("call", "add", "a=1", "b=2")
        assert "1 calls ended more than" in inside("gc", "--older-than", "0", "--dry-run").stdout

    def test_doctor_names_an_old_sqlite(self, inside: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("apsw.sqlite_lib_version", lambda: "3.40.1")
        monkeypatch.setenv("CLICKET_TOOLS", "cli_nothing")
        told = inside("doctor")
        assert told.returncode == 1
        assert "can corrupt a database in WAL mode" in told.stdout
        assert "✗ tools" in told.stdout

    def test_reader_that_leaves_is_no_error(self, start: Start, run: Run) -> None:
        run("call", "add", "a=1", "b=2")
        process = start("ps", "--all")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


class TestFindingTools:
    def test_what_a_spec_may_name(self, run: Run, folder: Path) -> None:
        (folder / "more").mkdir()
        (folder / "more" / "extra.py").write_text(
            "from cli_tools import add, boom, plain\nfrom clicket import NativeTool\nsome = [add, boom]\nnamed = {'x': add}\n"
            "class Counter(NativeTool):\n    def run(self, arguments, ctx):\n        return 1\n"
        )

        def names(*specs: str) -> list[str]:
            words = [word for spec in specs for word in ("--tools", spec)]
            done = run("tools", "--json", *words)
            assert done.returncode == 0, done.stderr
            return [each["name"] for each in json.loads(done.stdout)["tools"]]

        assert names("cli_tools:add") == ["add"]
        assert names("cli_tools:plain") == ["plain"]
        assert names("more.extra:some") == ["add", "boom"]
        assert names("more.extra:named") == ["add"]
        assert names("more/extra.py") == ["add", "boom", "counter"]
        assert names("more.extra:Counter", "cli_tools:add") == ["counter", "add"]

    def test_entry_points_and_file(self, run: Run, folder: Path) -> None:
        package = folder / "plugin-1.dist-info"
        package.mkdir()
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
        (package / "entry_points.txt").write_text("[clicket.tools]\ngood = cli_tools:add\nbad = cli_nothing\n")
        (folder / "clicket.toml").write_text('tools = ["cli_tools:boom"]\n')
        environment = {"CLICKET_TOOLS": "cli_tools:boom", "PYTHONPATH": str(folder)}
        done = run("tools", "--json", **environment)
        assert [each["name"] for each in json.loads(done.stdout)["tools"]] == ["boom", "add"]
        assert "warning: the tools of cli_nothing could not be loaded" in done.stderr
        alone = run("tools", "--json", "--tools", "cli_tools:boom", **environment)
        assert [each["name"] for each in json.loads(alone.stdout)["tools"]] == ["boom"]

    def test_broken_module_is_named_with_its_line_and_traceback_only_when_asked(self, run: Run, folder: Path) -> None:
        (folder / "cli_broken.py").write_text("import os\n\nvalue = 1 / 0\n")
        done = run("call", "add", "--tools", "cli_broken")
        assert done.returncode == 2
        assert "ZeroDivisionError" in done.stderr
        assert "cli_broken.py, line 3" in done.stderr
        assert no_traceback(done)
        asked = run("call", "add", "--tools", "cli_broken", "--debug")
        assert asked.returncode == 2
        assert "Traceback" in asked.stderr


class TestExitCodes:
    """In this process, as `main` returns what the program exits with."""

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["nonsense"], "No such command"),
            (["ps", "--nonsense"], "No such option"),
            (["call"], "Missing argument"),
            (["call", "add", "a"], "neither JSON nor KEY=VALUE"),
            (["call", "add", "a=1", "a=2"], "given twice"),
            (["call", "add", "a=1", "--timeout", "soon"], "is not a duration"),
            (["call", "add", "a=1", "--timeout", "0"], "above 0"),
            (["call", "add", "--tools", "cli_tool"], "Did you mean 'cli_tools'?"),
            (["call", "add", "--tools", "cli_tools:ad"], "Did you mean 'add'?"),
            (["call", "add", "--tools", ":add"], "names no module"),
            (["call", "add", "--tools", "json"], "there are no tools in module 'json'"),
            (["call", "add", "--tools", "cli_tools:TOOLS"], "has no 'TOOLS'"),
            (["call", "add", "--tools", "missing.py"], "there is no file"),
            (["ps", "--store", "mongo://x"], "there is no store of the kind 'mongo'"),
            (["gc", "--older-than", "-1"], "is not a duration"),
            (["demo", "--store", "memory://"], "cannot show that"),
            (["show", "x", "--store", "memory://"], "seen by its own process alone"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_wrong_use_is_2(
        self, folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
    ) -> None:
        assert main(arguments) == 2
        err = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert says in err
        assert "Traceback" not in err

    def test_no_tools_at_all_is_2(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("CLICKET_TOOLS")
        assert main(["call", "add"]) == 2
        assert "no tools were found" in capsys.readouterr().err

    def test_limit_out_of_range_is_2(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["call", "add", "a=1", "b=1"]) == 0
        assert main(["ps", "--limit", "0"]) == 2
        assert "limit must be" in capsys.readouterr().err

    def test_store_out_of_reach_is_3(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "wrong.db").write_text("this is no database, and never was one; it is a text")
        for command in (["ps"], ["show", "x"], ["call", "add", "a=1", "b=2"]):
            assert main([*command, "--store", "sqlite:///wrong.db"]) == 3
        assert main(["ps", "--store", "sqlite:///wrong.db", "--json"]) == 3
        out = capsys.readouterr().out
        assert json.loads(out)["error"]["code"] == "store_unavailable"
        assert (folder / "wrong.db").read_text().startswith("this is no database")

    def test_unexpected_error_is_1_without_traceback(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr("clicket.cli.session.Settings.load", broken)
        assert main(["config"]) == 1
        err = capsys.readouterr().err
        assert "RuntimeError: a bug" in err
        assert "--debug" in err
        assert main(["config", "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "unexpected"

    def test_help_and_version(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--help"]) == 0
        text = capsys.readouterr().out
        for command in "demo call ps show tail cancel tools worker recover gc config bench doctor cache".split():
            assert f"│ {command} " in text
        for arguments in (["--version"], ["-V"], ["--json", "--version"]):
            assert main(arguments) == 0
            assert capsys.readouterr().out.startswith("clicket ")
        assert main([]) == 2

    def test_version_loads_nothing_that_draws(self, run: Run) -> None:
        code = "import sys; from clicket.cli import main; main(['--version']); sys.exit('typer' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


class TestWords:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("90", 90),
            ("0.5", 0.5),
            ("500ms", 0.5),
            ("90s", 90),
            ("1h30m", 5400),
            ("2d", 172_800),
            ("1.5h", 5400),
            ("0", 0),
        ],
    )
    def test_durations_are_read(self, text: str, seconds: float) -> None:
        assert parse_duration(text) == seconds

    @pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "1x", "1h x", "m5"])
    def test_other_texts_are_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="is not a duration"):
            parse_duration(text)

    def test_durations_are_written(self) -> None:
        written = [duration(value) for value in (0.0000042, 0.0421, 0.9949, 0.9951, 12.34, 61, 3_700, 90_000, None)]
        assert written == ["4 µs", "42.1 ms", "995 ms", "0.995 s", "12.3 s", "1 min 1 s", "1 h 1 min", "1 d 1 h", ""]

    def test_sizes_and_ids(self) -> None:
        assert [size(value) for value in (0, 1023, 1536, 5 * 1024**3)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
        twins = ["a" * 20 + "1" * 12, "a" * 20 + "2" * 12]
        assert shortened([*twins, "mine"]) == {twins[0]: twins[0][:22], twins[1]: twins[1][:22], "mine": "mine"}

    def test_controls_are_taken_out(self) -> None:
        assert clean("a\x1b[31mb\r\nc\rd\te\x9b\u202e") == "a�[31mb\nc\nd\te��"

    def test_arguments_follow_the_schema(self) -> None:
        schema = {"properties": {"zip": {"type": "string"}, "n": {"type": "integer"}, "any": {}}}
        assert read_arguments(["zip=01234", "n=5", "any=[1]", "more=text", "eq=a=b"], schema) == {
            "zip": "01234", "n": 5, "any": [1], "more": "text", "eq": "a=b",
        }  # fmt: skip
        assert read_arguments([' {"a": 1}'], schema) == ' {"a": 1}'
        assert read_arguments([], schema) == {}


def event(kind: str, state: State = State.RUNNING, **data: Any) -> Event:
    return Event(call_id="c", seq=1, at=0.0, type=kind, state=state, data=data)  # type: ignore[arg-type]


class TestSentences:
    @pytest.mark.parametrize(
        ("happened", "told"),
        [
            (event("created", tool="t", refused={"size": 9}), "t, arguments refused (9 bytes)"),
            (event("state_changed", to="retrying", attempt=1, delay=0.25), "↻ retrying  attempt 2 in 250 ms"),
            (
                event("state_changed", to="retrying", attempt=1, delay=None),
                "↻ retrying  attempt 2 when somebody approves",
            ),
            (event("state_changed", to="pending", waiting_for="approval"), "◌ pending  waiting for approval"),
            (event("state_changed", to="completed", output=[1], duration=2.0), "✓ completed  [1]  2 s"),
            (event("state_changed", to="completed", truncated=True, content="a\nb"), "✓ completed  a⏎b"),
            (event("stage_ended", stage="find", outcome="tool_not_found", duration=0.5), "find tool_not_found  500 ms"),
            (event("progress", step=3, total_steps=None, percentage=None, status="s"), "3  s"),
            (event("cancel_requested", reason=""), "asked to stop"),
            (event("approval_requested"), "waiting for a person's word"),
            (event("approval_given", approved=True, by="ann", reason="fine"), "approved by ann: fine"),
            (event("approval_given", approved=False), "denied by somebody"),
            (event("late_result", output=5), "came too late: 5"),
            (event("late_result", error={"message": "no"}), "came too late: no"),
            (event("heartbeat"), "alive"),
            (event("note", text="\x1b[1mhi"), "�[1mhi"),
        ],
    )
    def test_every_event_is_a_sentence(self, happened: Event, told: str) -> None:
        assert what_happened(happened).plain == told

    def test_remarks_of_ps(self) -> None:
        def record(**changes: Any) -> Record:
            return Record(id="c", tool="t", thread="x", created_at=0.0, **{"state": State.RUNNING, **changes})

        assert remark(record()).plain == ""
        assert remark(record(waiting_for="approval")).plain == "waiting for approval"
        assert remark(record(cancel_requested=True)).plain == "cancel requested"
        assert remark(record(state=State.PENDING), unowned=True).plain == "waiting for a worker"
        assert remark(record(progress={"percentage": 50.0, "status": "half"})).plain == "50 %  half"
        assert remark(record(progress={"percentage": None, "status": "some"})).plain == "some"
        assert remark(record(state=State.COMPLETED, content="out")).plain == "out"


class TestTimeline:
    """Bars are worked out from events alone."""

    def events(self, *rows: tuple[float, str, State, dict[str, Any]]) -> list[Event]:
        created = Event(
            call_id="c",
            seq=1,
            at=0.0,
            type="created",
            state=State.PENDING,
            data={"tool": "t", "thread": "x", "arguments": {}},
        )
        return [
            created,
            *(
                Event(call_id="c", seq=number, at=at, type=kind, state=state, data=data)  # type: ignore[arg-type]
                for number, (at, kind, state, data) in enumerate(rows, start=2)
            ),
        ]

    def test_waits_attempts_and_stages(self) -> None:
        record = fold(
            self.events(
                (0.1, "stage_ended", State.PENDING, {"stage": "validate", "outcome": "ok", "duration": 0.1}),
                (0.1, "approval_requested", State.PENDING, {}),
                (2.0, "approval_given", State.PENDING, {"approved": True}),
                (3.0, "state_changed", State.INITIALIZING, {"from": "pending", "to": "initializing"}),
                (4.0, "state_changed", State.RUNNING, {"from": "initializing", "to": "running"}),
                (4.0, "attempt_started", State.RUNNING, {"attempt": 1}),
                (5.0, "state_changed", State.RETRYING, {"from": "running", "to": "retrying", "delay": 2.0}),
                (7.0, "state_changed", State.RUNNING, {"from": "retrying", "to": "running"}),
                (7.0, "attempt_started", State.RUNNING, {"attempt": 2}),
            )
        )
        bars = [(bar.label, bar.begin, bar.end, bar.kind, bar.open) for bar in bars_of(record, now=9.0)]
        assert bars == [
            ("validate", 0.0, 0.1, "work", False),
            ("approval", 0.1, 2.0, "wait", False),
            ("queue", 2.0, 3.0, "wait", False),
            ("execute", 3.0, 9.0, "work", True),
            ("  ready", 3.0, 4.0, "wait", False),
            ("  attempt 1", 4.0, 5.0, "work", False),
            ("  backoff", 5.0, 7.0, "wait", False),
            ("  attempt 2", 7.0, 9.0, "work", True),
        ]

    def test_call_that_ended_in_the_queue_has_no_execution(self) -> None:
        error = {"code": "cancelled", "message": "m", "type": "Cancelled"}
        record = fold(
            self.events((3.0, "state_changed", State.CANCELLED, {"from": "pending", "to": "cancelled", "error": error}))
        )
        assert [(bar.label, bar.end) for bar in bars_of(record, now=9.0)] == [("queue", 3.0)]
