"""The imports of commands. On a busy machine imports take most of a command's time."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.children import PYTHONPATH
from tests.kit.waiting import PATIENCE

from clicket.cli.commands import COMMANDS, GROUPS
from clicket.sync import Runtime

COUNT = """
import json, sys
from clicket.cli import main
code = main(sys.argv[1:])
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""
HEAVY = (
    "jsonschema_rs httpx2 clicket.runtime.runtime clicket.tools clicket.engine.stages clicket.engine.executors "
    "clicket.agents clicket.engine.hub clicket.engine.journal clicket.telemetry "
    "clicket.interpreter clicket.search clicket.server clicket.adapters.mcp"
).split()


def modules(folder: Path, *arguments: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLICKET_")}
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *arguments],
        cwd=folder, env={**environment, "PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    code, found = json.loads(done.stderr.splitlines()[-1])
    assert code in (0, 2), done.stdout
    return list(found)


@pytest.mark.parametrize(
    ("arguments", "most"),
    [(("--help",), 6), (("ps", "--help"), 64), (("ps", "--all"), 95), (("show",), 94)],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_command_that_reads_imports_no_engine(tmp_path: Path, arguments: tuple[str, ...], most: int) -> None:
    if "--help" not in arguments:
        with Runtime(store=f"sqlite:///{tmp_path}/.clicket/clicket.db"):
            pass
    found = modules(tmp_path, *arguments)
    assert [name for name in HEAVY if name in found] == []
    ours = [name for name in found if name.partition(".")[0] == "clicket"]
    assert len(ours) <= most, f"{len(ours)} modules of clicket, {most} are allowed: {ours}"
    assert len(found) <= 550, f"{len(found)} modules with those of other packages"
    if arguments == ("--help",):
        assert "asyncio" not in found
        assert "msgspec" not in found


@pytest.mark.parametrize("name", [*COMMANDS, *(f"{group} {name}" for group in GROUPS for name in GROUPS[group][1])])
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    first, _, second = name.partition(" ")
    entry = GROUPS[first][1][second] if second else COMMANDS[first]
    paragraph = inspect.cleandoc(entry.load().__doc__ or "").split("\n\n")[0]
    assert entry.about == " ".join(paragraph.split())
