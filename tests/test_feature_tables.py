"""What the first pages say that clicket has, or does not have, is what the product has.

A name is real if the generated reference has it; `tests/test_docs.py` compares the reference with the code. Routes are read from the
server's tables of operations, extras from `pyproject.toml`.
"""

from __future__ import annotations

import re
import tomllib
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name

import pytest
from tests.test_docs import FENCE, blocks

from clicket.engine.stages import Pipeline

ROOT = Path(__file__).resolve().parents[1]
TABLES = ["docs/comparison.md", "docs/guides/migrating.md"]
READMES = ["README.md", "docs/zh-CN/README.md"]
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)")
CALLED = re.compile(r"@?([A-Za-z_][\w.]*)(?:\((.*)\))?")

REFERENCE = "\n".join(page.read_text("utf-8") for page in sorted((ROOT / "docs/reference").glob("*.md")))
NAMES = frozenset(re.findall(r"[A-Za-z_]\w*", REFERENCE)) | frozenset(signature(Pipeline).parameters)
COMMANDS = frozenset(re.findall(r"^## `clicket (\w+)", REFERENCE, re.MULTILINE))
ROUTES = frozenset(
    path
    for source in (ROOT / "src/clicket/server").rglob("*.py")
    for path in re.findall(r'"(?:GET|POST|PUT|DELETE) (/[^"?]*)"', source.read_text("utf-8"))
)
GUIDES = frozenset(page.stem for page in (ROOT / "docs/guides").glob("*.md"))

METRICS = frozenset(re.findall(r"`(clicket_\w+?)(?:\{[^`]*)?`", (ROOT / "docs/guides/telemetry.md").read_text("utf-8")))

LOCAL = frozenset("rt ctx result record handle hub ci r round agent await asyncio sessions thread".split())
"""Variables of the examples; what stands behind their dot is checked."""

ABSENT = {
    "docs/comparison.md": {"long workflows, sagas": r"workflow|saga"},
    "docs/guides/migrating.md": {
        "timers inside a workflow, child workflows, continue-as-new": r"workflow|continue_as",
        "`streamingEnabled`": r"streaming_?enabled",
    },
}
"""Rows that say that clicket does not have something, and names that it would then have."""


def chinese(page: str) -> str:
    return page.replace("docs/", "docs/zh-CN/", 1)


def rows_of(page: str) -> list[tuple[str, str]]:
    """The first cell of each row, and that of the column `clicket`, for each table that has one."""
    found: list[tuple[str, str]] = []
    column = -1
    for line in FENCE.sub("", (ROOT / page).read_text("utf-8")).splitlines():
        if not line.startswith("|"):
            column = -1
            continue
        cells = [cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")]
        if column < 0:
            column = cells.index("clicket") if "clicket" in cells else 0
        elif column and not set(line) <= set("|-"):
            found.append((cells[0], cells[column]))
    return found


def is_importable(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def unknown_names(text: str) -> list[str]:
    """The code in `text` that neither the reference nor the server has."""
    missing = []
    for span in SPAN.findall(text):
        code = re.sub(r"(\"[^\"]*\"|'[^']*')", "", span)
        if code.startswith("clicket "):
            found = code.split()[1] in COMMANDS
        elif re.match(r"((GET|POST|PUT|DELETE) )?/", code):
            wanted = re.sub(r"\{\w+\}", "{}", code.split()[-1])
            found = any(re.sub(r"\{\w+\}", "{}", route) == wanted for route in ROUTES)
        elif code.startswith("clicket_"):
            found = code in METRICS
        elif re.fullmatch(r"clicket(\.\w+)+", code):
            found = is_importable(code)
        else:
            called = CALLED.fullmatch(code.removeprefix("await "))
            names = re.findall(r"[A-Za-z_]\w*", code if called is None else called[1])
            keywords = re.findall(r"(\w+)=", "" if called is None else called[2] or "")
            found = all(name in NAMES or name in LOCAL for name in [*names, *keywords])
        if not found:
            missing.append(span)
    return missing


@pytest.mark.parametrize("page", [*TABLES, *map(chinese, TABLES)])
def test_every_name_in_the_column_clicket_exists(page: str) -> None:
    rows = rows_of(page)
    assert len(rows) > 20
    assert {row: missing for row, cell in rows if (missing := unknown_names(cell))} == {}


@pytest.mark.parametrize("page", TABLES)
def test_a_translated_table_names_the_same_code_and_the_same_guides(page: str) -> None:
    english, translated = (
        [(sorted(SPAN.findall(cell)), sorted(LINK.findall(cell))) for _, cell in rows_of(each)]
        for each in (page, chinese(page))
    )
    assert english == translated


def is_absent(pattern: str) -> bool:
    """No option, command, guide or public name is called so."""
    return not [name for name in NAMES | COMMANDS | GUIDES if re.fullmatch(pattern, name, re.IGNORECASE)]


@pytest.mark.parametrize("page", TABLES)
def test_what_a_table_says_is_missing_is_missing(page: str) -> None:
    """A feature that is added makes its row false, and this test red."""
    negative = {row for row, cell in rows_of(page) if re.match(r"(–|none|no)\b|–", cell)}
    assert negative == set(ABSENT[page])
    assert [row for row, pattern in ABSENT[page].items() if not is_absent(pattern)] == []


@pytest.mark.parametrize("page", [*READMES, "docs/faq.md", "docs/zh-CN/faq.md", *TABLES, *map(chinese, TABLES)])
def test_every_command_of_a_page_exists(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    shell = "".join(block for block in FENCE.findall(text) if block.startswith("```sh"))
    used = {*re.findall(r"`clicket ([a-z]+)", text), *re.findall(r"^clicket ([a-z]+)", shell, re.MULTILINE)}
    assert used <= COMMANDS


@pytest.mark.parametrize("page", READMES)
def test_the_list_of_extras_is_that_of_the_package(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    table = re.search(r"^\| (?:extra|附加项) \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    assert table
    listed = [extra for line in table[0].splitlines()[2:-1] for extra in SPAN.findall(line.split("|")[1])]
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert sorted(listed) == sorted(declared)


def test_the_deep_search_of_the_readme_prints_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [code for _, code in blocks(ROOT / "README.md") if "deep_search" in code]
    comment = re.search(r"print\(result\.answer\)  # … (.*)", code)
    assert comment
    exec(compile(code, "README.md", "exec"), {})
    assert comment[1] in capsys.readouterr().out
