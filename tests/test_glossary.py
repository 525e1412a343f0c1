"""Every module that a glossary names in its column "in the code" exists, and both languages name the same ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"docs/glossary.md": 3, "docs/zh-CN/glossary.md": 4}
"""The page, and the number of the column that names modules."""


def modules_by_term(page: str) -> dict[str, list[str]]:
    rows = [line.split(" | ") for line in (ROOT / page).read_text("utf-8").splitlines() if line.startswith("| ")]
    return {row[0].strip("| `"): re.findall(r"`(clicket[\w.]*)`", row[PAGES[page] - 1]) for row in rows[1:]}


@pytest.mark.parametrize("page", PAGES)
def test_every_module_of_the_glossary_exists(page: str) -> None:
    named = {name for names in modules_by_term(page).values() for name in names}
    places = {name: ROOT / "src" / name.replace(".", "/") for name in named}
    missing = [name for name, place in places.items() if not place.is_dir() and not place.with_suffix(".py").exists()]
    assert named
    assert not missing


def test_both_glossaries_name_the_same_modules_for_the_same_terms() -> None:
    english, chinese = map(modules_by_term, PAGES)
    assert english == chinese
