"""Notebook programs behave in the sandbox as in plain Python: output, values, errors with their lines, files, pictures."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.notebook_pages import DATA, PAGES, Call, Page, read
from tests.scenarios.notebook_plain import pixels

from clicket.interpreter import Interpreter
from clicket.interpreter.result import Block, File, Result

PLAIN = Path(__file__).with_name("notebook_plain.py")
HEAVY = {
    "numpy": ["numpy"],
    "pandas": ["numpy", "pandas"],
    "plots": ["numpy", "pandas", "matplotlib.pyplot"],
}
"""Slow imports of some pages; the others do not need them."""
DATED = (".zip", ".gz", ".pdf", ".svg")
"""Formats that contain the time of writing."""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
async def test_a_page_of_tasks_gives_what_plain_python_gives(path: Path, tmp_path: Path) -> None:
    page = read(path)
    expected = plain(page, tmp_path)
    problems: list[str] = []
    async with Interpreter(require="full", timeout=60, files=DATA, preload=HEAVY.get(page.name, ())) as interpreter:
        for session, wanted in zip(page.sessions, expected, strict=True):
            for call, want in zip(session, wanted, strict=True):
                problems += as_meant(call, want)
                result = await interpreter.run(call.markdown, file_names=call.files)
                problems += [f"{call.task}: {text}" for text in await differences(want, result, interpreter)]
            await interpreter.reset()
    assert not problems, "\n".join(problems)


def test_there_are_more_than_a_hundred_different_tasks() -> None:
    tasks = [task for path in PAGES for task in read(path).tasks]
    assert len(tasks) == len(set(tasks)) >= 100


def plain(page: Page, scratch: Path) -> list[list[dict[str, Any]]]:
    """Every session of a page in plain Python; for each call its blocks and the files that it made or changed."""
    sessions = []
    for number, session in enumerate(page.sessions):
        folder = scratch / f"work{number}"
        folder.mkdir()
        for name in {name for call in session for name in call.files}:
            (folder / name).write_bytes((DATA / name).read_bytes())
        sessions.append({"folder": str(folder), "runs": [call.blocks for call in session]})
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-X", "utf8", str(PLAIN)],
        input=json.dumps({"scratch": str(scratch), "preload": HEAVY.get(page.name, []), "sessions": sessions}),
        capture_output=True,
        text=True,
        check=False,
        # The user's home, where matplotlib keeps its list of fonts, which takes seconds to build.
        env={"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", str(scratch)), "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stderr
    answer: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return answer


def as_meant(call: Call, want: dict[str, Any]) -> list[str]:
    """A task that fails unexpectedly would be equal on both sides and prove nothing."""
    raised = tuple(block["error"]["type"] for block in want["blocks"] if block["error"])
    exits = [block["exit_code"] for block in want["blocks"] if block["exit_code"] is not None]
    problems = []
    if raised != call.raises:
        problems.append(f"{call.task}: meant to raise {call.raises}, plain Python raised {raised}")
    if exits != ([] if call.exit_code is None else [call.exit_code]):
        problems.append(f"{call.task}: meant to exit {call.exit_code}, plain Python exited {exits}")
    return problems


async def differences(want: dict[str, Any], result: Result, interpreter: Interpreter) -> list[str]:
    ran = result.blocks[: len(want["blocks"])]
    found = [
        f"block {block.index}: {what} is {got!r}, in plain Python {wanted!r}"
        for block, wanted_block in zip(ran, want["blocks"], strict=False)
        for what, got, wanted in pairs(block, wanted_block, result)
        if got != wanted
    ]
    if len(ran) != len(want["blocks"]):
        found.append(f"{len(ran)} blocks ran, in plain Python {len(want['blocks'])}")
    exits = [block["exit_code"] for block in want["blocks"] if block["exit_code"] is not None]
    status = "exit" if exits else "error" if any(block["error"] for block in want["blocks"]) else "ok"
    if (result.status, result.exit_code) != (status, exits[0] if exits else None):
        found.append(f"ended as {result.status} {result.exit_code} {result.error}, in plain Python as {status} {exits}")
    files = {file.name: await shape(file, interpreter) for file in result.files}
    wanted_files = {name: want_shape(name, what) for name, what in want["files"].items()}
    if files != wanted_files:
        found.append(f"files are {files}, in plain Python {wanted_files}; skipped: {result.skipped}")
    return found


def pairs(block: Block, want: dict[str, Any], result: Result) -> list[tuple[str, Any, Any]]:
    error = block.error and {"type": block.error.type, "message": block.error.message, "line": block.error.line}
    shown = [d for d in result.displays if d.block_index == block.index and d.mime == "image/png"]
    return [
        ("stdout", block.stdout, want["stdout"]),
        ("stderr", block.stderr, want["stderr"]),
        ("value", block.value, want["value"]),
        ("error", error if block.status != "exit" else None, want["error"]),
        ("pictures", [pixels(base64.b64decode(display.data)) for display in shown], want["figures"]),
    ]


async def shape(file: File, interpreter: Interpreter) -> Any:
    """The parts of a file that must be equal."""
    assert file.artifact, f"{file.name} was not stored"
    if file.name.endswith(".png"):
        return pixels(await interpreter.artifact(file.artifact))
    return "written" if file.name.endswith(DATED) else file.sha256


def want_shape(name: str, what: dict[str, Any]) -> Any:
    if name.endswith(".png"):
        return what["pixels"]
    return "written" if name.endswith(DATED) else what["sha256"]
