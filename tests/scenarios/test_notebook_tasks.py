"""Programs as people write them in notebooks give in the sandbox what they give in plain Python: output, values, errors with
their lines, files, pictures."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.notebook_pages import DATA, PAGES, Call, Page, read

PLAIN = Path(__file__).with_name("notebook_plain.py")
HEAVY = {
    "numpy": ["numpy"],
    "pandas": ["numpy", "pandas"],
    "plots": ["numpy", "pandas", "matplotlib.pyplot"],
}
"""What the pages import that takes long; the others have no need of it."""


def plain(page: Page, scratch: Path) -> list[list[dict[str, Any]]]:
    """Every session of a page in plain Python; for each call its blocks and the files that it made or changed."""
    sessions = []
    for number, session in enumerate(page.sessions):
        folder = scratch / f"work{number}"
        folder.mkdir()
        for name in {name for call in session for name in call.files}:
            (folder / name).write_bytes((DATA / name).read_bytes())
        sessions.append({"folder": str(folder), "runs": [call.blocks for call in session]})
    order = {"scratch": str(scratch), "preload": HEAVY.get(page.name, []), "sessions": sessions}
    command = [sys.executable, "-I", "-B", "-X", "utf8", str(PLAIN)]
    done = subprocess.run(
        command,
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(scratch), "MPLCONFIGDIR": str(scratch), "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stderr
    answer: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return answer


def as_meant(call: Call, expected: dict[str, Any]) -> list[str]:
    """A task that fails where it should not would be the same on both sides and show nothing."""
    raised = tuple(block["error"]["type"] for block in expected["blocks"] if block["error"])
    exits = [block["exit_code"] for block in expected["blocks"] if block["exit_code"] is not None]
    problems = []
    if raised != call.raises:
        problems.append(f"{call.task}: meant to raise {call.raises}, plain Python raised {raised}")
    if exits != ([] if call.exit_code is None else [call.exit_code]):
        problems.append(f"{call.task}: meant to exit {call.exit_code}, plain Python exited {exits}")
    return problems


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
async def test_a_page_of_tasks_gives_what_plain_python_gives(path: Path, tmp_path: Path) -> None:
    page = read(path)
    expected = plain(page, tmp_path)
    problems = [
        problem
        for session, results in zip(page.sessions, expected, strict=True)
        for call, result in zip(session, results, strict=True)
        for problem in as_meant(call, result)
    ]
    assert not problems, "\n".join(problems)


def test_there_are_more_than_a_hundred_different_tasks() -> None:
    tasks = [task for path in PAGES for task in read(path).tasks]
    assert len(tasks) == len(set(tasks)) >= 100
