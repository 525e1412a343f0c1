"""The pages about peers' bugs are what the table says, and the table names every scenario once."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.peers_bugs import PEERS_BUGS
from tests.scenarios.peers_bugs_zh import CHINESE

ROOT = Path(__file__).resolve().parents[2]


def script() -> Any:
    found = importlib.util.spec_from_file_location("peers_bugs_script", ROOT / "scripts" / "peers_bugs.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["docs/peers-bugs.md", "docs/zh-CN/peers-bugs.md"])
def test_the_page_is_made_from_the_table(page: str) -> None:
    made = script().PAGES[ROOT / page]()
    assert (ROOT / page).read_text(encoding="utf-8") == made, "run `python scripts/peers_bugs.py`"
    rows = [line for line in made.splitlines() if line.startswith("| [")]
    assert len(rows) == len(PEERS_BUGS)
    assert all(line.count("|") == 6 for line in rows)  # no text breaks a cell


def test_every_entry_has_its_scenario_and_every_scenario_its_entry() -> None:
    tests = [
        node.name
        for path in Path(__file__).parent.glob("test_peers_bugs*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert sorted(bug.test for bug in PEERS_BUGS) == sorted(tests)
    assert all(f"_{bug.number}_" in bug.test for bug in PEERS_BUGS)


def test_every_entry_is_translated_and_listed_once() -> None:
    names = [(bug.peer, bug.number) for bug in PEERS_BUGS]
    assert len(set(names)) == len(names) >= 12
    assert set(CHINESE) == set(names)
