"""Exit codes and error messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.cli.commands import (
    Run,
)

from clicket.cli import main


class TestExitCodes:
    """In this process, as `main` returns the exit code."""

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
            (["show", "x", "--store", "memory://"], "memory://"),
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
        assert "--tools" in capsys.readouterr().err

    def test_limit_out_of_range_is_2(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["call", "add", "a=1", "b=1"]) == 0
        assert main(["ps", "--limit", "0"]) == 2
        assert "limit must be" in capsys.readouterr().err

    def test_store_out_of_reach_is_3(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "wrong.db").write_text("this is not a database, and never was one; it is a text")
        for command in (["ps"], ["show", "x"], ["call", "add", "a=1", "b=2"]):
            assert main([*command, "--store", "sqlite:///wrong.db"]) == 3
        assert main(["ps", "--store", "sqlite:///wrong.db", "--json"]) == 3
        out = capsys.readouterr().out
        assert json.loads(out)["error"]["code"] == "store_unavailable"
        assert (folder / "wrong.db").read_text().startswith("this is not a database")

    def test_unexpected_error_is_1_without_traceback(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr("clicket.cli.context.Settings.load", broken)
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
        assert subprocess.run([sys.executable, "-c", code], check=False, timeout=PATIENCE).returncode == 0
