"""Commands that show tools, calls and this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.cli.commands import (
    Run,
    Start,
)


class TestLooking:
    def test_no_store_yet_is_said_and_not_made(self, inside: Run, folder: Path) -> None:
        listed = inside("ps")
        assert listed.returncode == 0
        assert "there is no store" in listed.stderr
        assert json.loads(inside("ps", "--json").stdout) == {
            "items": [],
            "calls": [],
            "cursor": None,
            "searched_to": None,
        }
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
        listed = inside("ps", "--all")
        assert "ended calls are kept for 30 days, at most 2.0 GiB" in " ".join(listed.stderr.split())
        table = listed.stdout
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
        (folder / "wrong.db").write_text("this is not a database, and never was one; it is a text")
        inside("call", "add", "a=1", "b=2")
        kept = [
            check for check in json.loads(inside("doctor", "--json").stdout)["checks"] if check["name"] == "retention"
        ]
        assert kept[0]["found"].startswith("ended calls are kept for 30 days, at most 2.0 GiB")
        ended = inside("ps", "--all", CLICKET_RETENTION="60", CLICKET_RETENTION_CALLS="1000").stderr
        assert "kept for 1 min 0 s, at most 2.0 GiB and 1,000 calls;" in ended.replace("\n", " ")
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

    def test_tail_of_an_ended_call_prints_it_again(self, inside: Run) -> None:
        inside("call", "flaky", "--id", "one")
        done = inside("tail", "one")
        assert done.returncode == 0
        assert "attempt 2 in" in done.stdout
        assert "1/2  half" in done.stdout
        later = inside("tail", "one", "--after", "5", "--json").stdout.splitlines()
        assert json.loads(later[0])["seq"] == 6
        inside("call", "boom", "--id", "two")
        assert inside("tail", "two").returncode == 1

    def test_bench_and_gc_print_text(self, inside: Run) -> None:
        table = inside("bench", "--seconds", "0.1").stdout
        assert "kill -9" in table
        assert "calls/s" in table
        inside("call", "add", "a=1", "b=2")
        assert "1 calls ended more than" in inside("gc", "--older-than", "0", "--dry-run").stdout

    def test_doctor_names_an_old_sqlite(self, inside: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("apsw.sqlite_lib_version", lambda: "3.40.1")
        monkeypatch.setenv("CLICKET_TOOLS", "cli_nothing")
        done = inside("doctor")
        assert done.returncode == 1
        assert "can corrupt a database in WAL mode" in done.stdout
        assert "✗ tools" in done.stdout

    def test_reader_that_leaves_is_no_error(self, start: Start, run: Run) -> None:
        run("call", "add", "a=1", "b=2")
        process = start("ps", "--all")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
