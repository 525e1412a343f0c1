"""`clicket call`: arguments, results, signals, and what a terminal shows meanwhile."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.cli.commands import (
    Run,
    Start,
    in_terminal,
    is_output,
    no_traceback,
    read_until,
)


class TestCall:
    def test_pairs_json_and_stdin_give_the_same(self, run: Run, inside: Run) -> None:
        for done in (
            inside("call", "add", "a=1", "b=2"),
            inside("call", "add", '{"a": 1, "b": 2}'),
            run("call", "add", "-", given='{"a": 1, "b": 2}'),
        ):
            assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
            assert "completed" in done.stderr

    def test_json_is_the_result(self, inside: Run) -> None:
        done = inside(
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
        record = json.loads(inside("show", "one", "--json").stdout)
        assert (record["thread"], record["timeout"], record["deadline"]) == ("t1", 5.0, 60.0)

    def test_failed_call_exits_1_and_says_why(self, run: Run, inside: Run) -> None:
        done = run("call", "boom")
        assert done.returncode == 1
        assert done.stdout == ""
        assert "tool_error: KeyError:" in done.stderr
        assert "[red]text[/red]" in done.stderr  # not interpreted as our markup
        assert "\x1b" not in done.stderr
        assert no_traceback(done)

        refused = inside("--json", "call", "add", "a=x")
        error = json.loads(refused.stdout)["error"]
        assert refused.returncode == 1
        assert error["code"] == "invalid_input"
        assert len(error["details"]["problems"]) == 2
        assert error["details"]["problems"][0].keys() >= {"path", "message"}

    def test_unknown_tool_is_recorded_and_near_misses_named(self, inside: Run) -> None:
        done = inside("call", "ad", "a=1")
        assert done.returncode == 1
        assert "Did you mean 'add'?" in done.stderr

    def test_same_id_is_the_same_call_and_other_arguments_a_conflict(self, run: Run, inside: Run) -> None:
        assert run("call", "add", "a=1", "b=2", "--id", "x").stdout == "3\n"
        assert inside("call", "add", "a=1", "b=2", "--id", "x").stdout == "3\n"
        other = inside("call", "add", "a=5", "b=2", "--id", "x")
        assert other.returncode == 2
        assert "error conflict" in other.stderr
        assert len(json.loads(inside("ps", "--all", "--json").stdout)["calls"]) == 1

    def test_retries_are_printed_while_they_happen(self, inside: Run) -> None:
        done = inside("call", "flaky")
        assert (done.returncode, done.stdout) == (0, "ok\n")
        assert "not yet; attempt 2 in" in done.stderr
        assert "2 attempts" in done.stderr

    def test_pipe_gets_the_whole_of_a_big_result(self, run: Run) -> None:
        done = run("call", "big", "size=5000")
        assert done.stdout == "x" * 5000 + "\n"
        assert "sha256-" in done.stderr

    def test_stream_prints_as_it_comes(self, start: Start, folder: Path) -> None:
        process = start("call", "gate", "path=go", "--stream")
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        (folder / "go").touch()
        assert process.communicate(timeout=PATIENCE)[0].split() == ["shut"]
        assert process.returncode == 0

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupt_cancels_the_call_and_exits_130(self, start: Start, inside: Run, number: int) -> None:
        process = start("call", "gate", "path=never", "--id", "held", "--stream", "--json")
        read_until(process, is_output)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert "Traceback" not in err
        assert json.loads(out[out.index("{\n") :])["state"] == "cancelled"
        record = json.loads(inside("show", "held", "--json").stdout)
        assert (record["state"], record["error"]["code"]) == ("cancelled", "cancelled")

    def test_terminal_gets_live_output_and_no_foreign_controls(self, folder: Path) -> None:
        wild = in_terminal(folder, "call", "wild")
        assert "\x1b[2J" not in wild
        assert "[2Jcleared" in wild
        seen = in_terminal(folder, "call", "flaky")
        assert "half" in seen  # the progress line
        assert "100 %" in seen
        assert "2 attempts" in seen
