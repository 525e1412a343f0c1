"""Where commands find their tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.cli.commands import (
    Run,
    no_traceback,
)


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

    def test_factories_of_deps(self, run: Run, folder: Path) -> None:
        (folder / "cli_deps.py").write_text(
            "from typing import Annotated\nfrom clicket import Depends, tool\n"
            "class Pool:\n    def close(self):\n        print('closed')\n"
            "@tool\ndef read(db: Annotated[Pool, Depends('db')]) -> str:\n    return type(db).__name__\n"
        )
        (folder / "clicket.toml").write_text('[deps]\ndb = "cli_deps:Pool"\n')
        done = run("call", "read", "--json", "--tools", "cli_deps")
        assert (done.returncode, "Pool" in done.stdout, "closed" in done.stdout) == (0, True, True), done.stderr
        for wrong, says in {"cli_deps:Pol": "Did you mean 'Pool'", "cli_deps": "write module:name"}.items():
            done = run("call", "read", "--tools", "cli_deps", CLICKET_DEPS=json.dumps({"db": wrong}))
            assert done.returncode == 2
            assert f"deps.db = '{wrong}'" in done.stderr
            assert says in done.stderr
            assert no_traceback(done)

    def test_broken_module_is_named_with_its_line_and_traceback_only_on_request(self, run: Run, folder: Path) -> None:
        (folder / "cli_broken.py").write_text("import os\n\nvalue = 1 / 0\n")
        done = run("call", "add", "--tools", "cli_broken")
        assert done.returncode == 2
        assert "ZeroDivisionError" in done.stderr
        assert "cli_broken.py:3" in done.stderr
        assert no_traceback(done)
        asked = run("call", "add", "--tools", "cli_broken", "--debug")
        assert asked.returncode == 2
        assert "Traceback" in asked.stderr


HIJACK = "open('hijacked', 'w').close()\nraise SystemExit(3)\n"
"""A module that a program could leave in the folder for the host to import."""


class TestWhatLiesInTheFolder:
    """A folder may hold files that a program made. clicket does not import them just because they are there."""

    @pytest.fixture
    def run(self, folder: Path) -> Run:
        """With a start of its own: what it imports is the point."""

        def go(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
            program = [sys.executable, "-m", "clicket", *arguments]
            env = {**os.environ, **environment}
            return subprocess.run(
                program, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE
            )

        return go

    @pytest.mark.parametrize(
        "words", [("doctor",), ("ps",), ("tools", "--tools", "cli_tools")], ids=lambda words: words[0]
    )
    def test_no_file_takes_the_place_of_a_package(self, run: Run, folder: Path, words: tuple[str, ...]) -> None:
        for name in ("apsw", "msgspec", "typer", "rich", "sqlite3", "tomllib", "jsonschema_rs"):
            (folder / f"{name}.py").write_text(HIJACK)
        done = run(*words, CLICKET_TOOLS="")
        assert not (folder / "hijacked").exists(), done.stdout + done.stderr
        assert done.returncode in (0, 4), done.stdout + done.stderr

    def test_a_command_that_loads_no_tools_imports_nothing_of_the_folder(self, run: Run, folder: Path) -> None:
        (folder / "nats.py").write_text(HIJACK)  # not installed everywhere
        (folder / "evil.py").write_text(HIJACK)
        plugin = folder / "evil-1.dist-info"
        plugin.mkdir()
        (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
        (plugin / "entry_points.txt").write_text("[clicket.tools]\nevil = evil\n")
        done = run("tools", "--json", CLICKET_TOOLS="cli_tools")
        assert not (folder / "hijacked").exists(), done.stdout + done.stderr
        assert "evil" not in done.stderr

    def test_a_file_whose_name_is_taken_is_reported(self, run: Run, folder: Path) -> None:
        (folder / "json.py").write_text("from clicket import tool\n@tool\ndef mine() -> int:\n    return 1\n")
        named = run("tools", "--tools", "./json.py")
        assert named.returncode == 2
        assert "another module has the name 'json'" in named.stderr
        guessed = run("tools", "--tools", "json")
        assert guessed.returncode == 2
        assert "comes before json.py in this folder" in " ".join(guessed.stderr.split())
