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


RIDDLES = re.compile(
    r"\b[Ww]hoever\b|\bso many\b|\b(?:that|which) (?:is|are) none\b|(?<!here )\bis no (?!longer\b|more\b|less\b|one\b|doubt\b|way\b)\w"
)
"""Phrases that make a reader stop: `is no tool` for "is not a tool", `so many` for a number, `whoever` for a person or a process."""


def test_the_words_of_the_sources_are_plain() -> None:
    pages = [path for path in (ROOT / "src").rglob("*.py") if "static" not in path.parts]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in pages
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if RIDDLES.search(line)
    ]
    assert pages
    assert not found, "\n".join(found)
