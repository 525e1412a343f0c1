"""A folder like a user's, and three ways to run a command in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.cli.commands import (
    PROGRAM,
    TOOLS,
    Run,
    Start,
)

from clicket.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of a user: a module of tools, and nothing else."""
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
            stdin=subprocess.DEVNULL if given is None else None, capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip

    return go


@pytest.fixture
def inside(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same without a new process, where none is needed."""

    def go(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            code = main(arguments)
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, captured.out, captured.err)

    return go


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start a command and leave it running; the fixture ends it after the test."""
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
