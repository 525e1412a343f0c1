"""Which parts of a task are Python: every way of writing a fence that people and models use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples, in_long_runs

from clicket.interpreter.run.task_parser import MarkdownTooComplex, further_ends, is_quick, join, parse


def codes(task: str) -> list[str]:
    return [block.code for block in parse(task).blocks]


@pytest.mark.parametrize(
    "info",
    [
        "", "python", "py", "Python", "PYTHON3", "python3", "py3", "python3.11", "ipython", "ipython3", "{python}",
        "{.python}", "{.python .numberLines}", "{python, echo=FALSE}", 'python title="a.py"', "python:main.py",
        "python{1,3}", "py,ignore", " python ", "{code-cell} ipython3", "{code-cell}", "python3 -u",
    ],
)  # fmt: skip
def test_names_of_python(info: str) -> None:
    assert codes(f"```{info}\nx = 1\n```") == ["x = 1\n"]


@pytest.mark.parametrize(
    "info", ["bash", "json", "pyrex", "pytb", "cpython", "js", "text", "{bash}", "output", "pythonic"]
)
def test_other_languages_are_named_and_not_run(info: str) -> None:
    parsed = parse(f"```python\nx = 1\n```\n```{info}\nls\n```")
    assert [block.code for block in parsed.blocks] == ["x = 1\n"]
    assert [skipped.what for skipped in parsed.skipped] == [f"{info.strip('{}')} block at line 4"]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        pytest.param("~~~python\nx = 1\n~~~", ["x = 1\n"], id="tildes"),
        pytest.param("````python\ns = '''\n```\n'''\n````", ["s = '''\n```\n'''\n"], id="four backticks"),
        pytest.param("````markdown\n```python\nx = 1\n```\n````\n", [], id="shown, not meant"),
        pytest.param("- do\n\n  ```python\n  if x:\n      y\n  ```\n", ["if x:\n    y\n"], id="in a list"),
        pytest.param("> ```python\n> x = 1\n> y = 2\n> ```\n", ["x = 1\ny = 2\n"], id="in a quote"),
        pytest.param("1. a\n   > ```py\n   > x\n   > ```\n", ["x\n"], id="in a quote in a list"),
        pytest.param("text\n```python\nx = 1", ["x = 1"], id="unterminated"),
        pytest.param("```python\r\nx = 1\r\nif x:\r\n    y\r\n```\r\n", ["x = 1\nif x:\n    y\n"], id="crlf"),
        pytest.param("```python\nx\n```\n```python\ny\n```", ["x\n", "y\n"], id="adjacent"),
        pytest.param("```python\n```\n```python\n\n  \n```\n```\ny\n```", ["y\n"], id="empty ones"),
        pytest.param("  ```python\n  x\n    y\n  ```", ["x\n  y\n"], id="indented fence"),
        pytest.param("text ```python x``` text\n```\ny\n```", ["y\n"], id="inline code"),
        pytest.param("<!-- \n```python\nx\n```\n-->\n\n```python\ny\n```", ["y\n"], id="in a comment"),
        pytest.param("\ufeff```python\nx\n```", ["x\n"], id="byte order mark"),
        pytest.param("```python\n\tx\n```", ["x\n"], id="tabs"),
        pytest.param("```python\nif x:\n\ty\n```", ["if x:\n\ty\n"], id="tabs inside"),
        pytest.param(
            "\n    # A\n\n    ```python\n    if x:\n        y\n    ```\n    ", ["if x:\n    y\n"], id="all indented"
        ),
        pytest.param("```python\n    x\n\n      \n     y\n```", ["x\n\n  \n y\n"], id="code indented in its fence"),
        pytest.param("\n    x = 1\n    if x:\n        y\n    ", ["\nx = 1\nif x:\n    y\n"], id="bare and indented"),
        pytest.param("    x\ny", ["    x\ny"], id="not all of it"),
        pytest.param("    x\n\ty", ["    x\n\ty"], id="not alike"),
        pytest.param(
            "```pycon\n>>> x = 1\n>>> if x:\n...     y\n...\n1\n```", ["x = 1\nif x:\n    y\n\n"], id="console"
        ),
        pytest.param(">>> x = 1\n>>> x\n1\n", ["x = 1\nx\n"], id="bare console"),
    ],
)
def test_fences(task: str, expected: list[str]) -> None:
    assert codes(task) == expected


@pytest.mark.parametrize("task", ["x = 1", "def f():\n    return 1\n\n\n    # x\nf()", "a = '`'\n# ``\n", "# title\nx"])
def test_without_a_fence_all_is_code(task: str) -> None:
    parsed = parse(task)
    assert parsed.bare
    assert [block.code for block in parsed.blocks] == [task]


@pytest.mark.parametrize("task", ["", "  \n ", "```python\n```", "```bash\nls\n```", "~~~\n~~~"])
def test_nothing_to_run(task: str) -> None:
    assert parse(task).blocks == ()


def test_lines_of_a_block_are_those_of_its_fence() -> None:
    task = "# A\n\n```python\nx\ny\n```\nprose\n```\nz\n```\n"
    assert [block.lines for block in parse(task).blocks] == [(2, 6), (7, 10)]


IN_A_STRING = 'FolderScan:\n```python\ns = """\n```\nhello\n```\n"""\nprint(s)\n```\nand\n```python\nlast()\n```\n'


def test_a_block_has_its_further_ends() -> None:
    parsed = parse(IN_A_STRING)
    assert [end.line for end in further_ends(parsed, 0)] == [5, 8, 12]
    whole = further_ends(parsed, 0)[1]
    assert whole.code == 's = """\n```\nhello\n```\n"""\nprint(s)\n'
    joined = join(parsed, 0, whole)
    assert [block.code for block in joined.blocks] == [whole.code, "last()\n"]
    assert [block.lines for block in joined.blocks] == [(1, 9), (10, 13)]


def test_ends_are_few_and_only_where_the_fence_stands_free() -> None:
    assert len(further_ends(parse("```python\nx\n```\n" * 30), 0)) == 8
    assert further_ends(parse("> ```python\n> x\n> ```\n\n```\ny\n```\n"), 0) == []
    assert further_ends(parse("x = 1"), 0) == []


@pytest.mark.parametrize("line", ["- a\n", "```\n", "- > " * 10 + "x\n", "1) x\n"])
def test_markdown_out_of_proportion_is_refused_soon(line: str) -> None:
    task = line * (1024 * 1024 // len(line) - 20) + "\n\n```python\nx\n```\n"
    with pytest.raises(MarkdownTooComplex, match="50,000"):
        parse(task)


def test_lines_that_many_quotes_go_on_with_are_refused_soon() -> None:
    task = ">" * 19 + " a\n" + "b\n" * in_long_runs(500_000, else_=50_000) + "```python\nx\n```\n"
    with pytest.raises(MarkdownTooComplex, match="200,000"):
        parse(task)


def test_what_may_take_long_is_known_before() -> None:
    assert is_quick("x = 1\n" * 100_000)  # no fence: it is code, and not split
    assert is_quick("```python\nx\n```\n" * 50)
    for newline in ("\n", "\r", "\r\n"):
        assert not is_quick(f">>>>>> a{newline}" + f"b{newline}" * 300 + "```")
    assert not is_quick("x" * 100_000 + "\n```\n")
    assert not is_quick("\r\n" + " x\n" * 100_000)  # needs dedenting, line by line


def test_a_megabyte_of_code_is_no_matter() -> None:
    assert len(codes("x = 1\n" * 170_000)) == 1
    assert len(codes("```python\n" + "- 1\n" * 250_000 + "```\n")) == 1


@settings(max_examples=examples(60), deadline=None)
@given(st.text(alphabet=" \n`~>-*1.\tpyx#'\"{}=", max_size=200))
def test_any_text_is_taken_apart_without_an_error(task: str) -> None:
    parsed = parse(task)
    for index, block in enumerate(parsed.blocks):
        assert block.code.strip()
        for end in further_ends(parsed, index):
            again = join(parsed, index, end)
            assert again.blocks[: index + 1][-1].code == end.code or not end.code.strip()
            assert len(again.fences) <= len(parsed.fences) + 1
