"""The glossary: its modules exist, both languages name the same ones, and words have one meaning each, in the code, too."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
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


WORDS = ("branch", "bus", "grant", "model", "notice", "request", "session", "signal", "turn", "worker")
"""Words that would serve for many things. The glossary states the one meaning of each."""
ELSEWHERE = {
    "grant": ("stores", "engine/executors", "engine/slots", "model/ports", "safety/credentials", "system"),
    "notice": (
        "stores",
        "engine/drive",
        "engine/fleet",
        "engine/records",
        "model/ports",
        "interpreter",
        "adapters",
        "system",
    ),
    "request": ("engine/drive", "engine/journal", "engine/recovery", "tools/search"),
    "session": ("stores", "agents", "models", "runtime", "search"),
    "turn": ("stores", "engine/fleet", "engine/local", "engine/lifecycle", "interpreter", "models", "system"),
    "worker": ("interpreter", "system", "tools", "search", "safety", "engine/executors/processes"),
}
"""Parts in which a name with the word would mean something else."""


def names_in(page: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(page.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.lineno, node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


@pytest.mark.parametrize("page", PAGES)
def test_each_word_has_one_row_with_one_meaning(page: str) -> None:
    rows = [line.split(" | ") for line in (ROOT / page).read_text("utf-8").splitlines() if line.startswith("| ")][1:]
    meanings = {row[0].strip("| `").casefold(): row[PAGES[page] - 2] for row in rows}
    assert len(meanings) == len(rows)
    assert not [word for word in WORDS if word not in meanings]
    assert not [word for word in WORDS if re.search("[(（]", meanings[word])], "a second meaning in brackets"


@pytest.mark.parametrize("word", ELSEWHERE)
def test_a_word_names_nothing_where_it_would_mean_something_else(word: str) -> None:
    pages = [page for part in ELSEWHERE[word] for page in (ROOT / "src/clicket" / part).rglob("*.py")]
    names = [(page, 0, page.stem) for page in pages] + [(page, *each) for page in pages for each in names_in(page)]
    found = [
        f"{page.relative_to(ROOT)}:{line}: {name}"
        for page, line, name in names
        if {word, f"{word}s"}.intersection(part.lower() for part in re.findall("[A-Z]?[a-z]+|[A-Z]+", name))
    ]
    assert pages
    assert not found, "\n".join(found)


def test_the_kinds_of_documents_of_agents_are_written_once() -> None:
    sources = "".join(page.read_text("utf-8") for page in (ROOT / "src/clicket").rglob("*.py"))
    kinds = Counter(re.findall(r'"(agent\.[a-z.]+)"', sources))
    assert kinds
    assert not [kind for kind, count in kinds.items() if count > 1]
