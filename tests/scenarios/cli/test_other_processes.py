"""Commands about calls of another process: cancel, tail, recovery."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.cli.commands import (
    Run,
    Start,
    is_end,
    is_output,
    read_until,
)


class TestOtherProcesses:
    def test_cancel_ends_a_call_of_another_process(self, start: Start, run: Run, inside: Run) -> None:
        process = start("call", "gate", "path=never", "--id", "theirs", "--stream", "--json")
        read_until(process, is_output)
        listed = json.loads(inside("ps", "--json").stdout)["calls"]
        assert [(call["id"], call["state"]) for call in listed] == [("theirs", "streaming")]
        drawn = inside("show", "theirs").stdout
        assert "▶" in drawn
        assert "still running" in drawn
        done = run("cancel", "thei", "--reason", "enough", "--wait", "20s", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout) == {
            "id": "theirs", "thread": "default", "requested": True, "cancelled": True, "state": "cancelled",
        }  # fmt: skip
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert json.loads(out.splitlines()[-1])["error"]["message"] == "the call was cancelled: enough"
        again = inside("cancel", "theirs")
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
        assert tail.wait(PATIENCE) == code
        assert process.wait(PATIENCE) == code

    def test_tail_of_all_calls_sees_those_that_come_later(self, start: Start, inside: Run) -> None:
        inside("call", "add", "a=1", "b=1")
        tail = start("tail", "--json")
        held = start("call", "gate", "path=never", "--id", "held")
        read_until(tail, lambda event: event["call_id"] == "held" and is_output(event))
        assert inside("call", "add", "a=1", "b=1", "--id", "later").returncode == 0
        read_until(tail, lambda event: event["call_id"] == "later" and is_end(event))
        tail.send_signal(signal.SIGINT)
        _, err = tail.communicate(timeout=PATIENCE)
        assert tail.returncode == 130
        assert "Traceback" not in err
        held.send_signal(signal.SIGINT)
        assert held.wait(PATIENCE) == 130

    def test_watching_recovers_nothing_and_calling_does(self, start: Start, inside: Run) -> None:
        process = start("call", "gate", "path=never", "--id", "lost", "--stream", "--json")
        read_until(process, is_output)
        process.kill()
        process.wait()
        for command in (["ps"], ["show", "lost"], ["gc"], ["doctor"]):
            assert inside(*command).returncode == 0
        assert json.loads(inside("show", "lost", "--json").stdout)["state"] == "streaming"
        asked = inside("cancel", "lost", "--wait", "0")
        assert asked.returncode == 0
        assert "lost: the request is stored" in asked.stderr
        inside("call", "add", "a=1", "b=1")
        assert json.loads(inside("show", "lost", "--json").stdout)["state"] in ("failed", "cancelled")
