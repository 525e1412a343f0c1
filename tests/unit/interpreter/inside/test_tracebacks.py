"""Errors show the program's lines, and survive exceptions that lie about themselves."""

from __future__ import annotations

import sys

import pytest
from tests.unit.interpreter.inside.sandbox_process import SandboxProcess

_OF_NULL = "SyntaxError" if sys.version_info >= (3, 11, 4) else "ValueError"


def trace_of(child: SandboxProcess, code: str, name: str = "<block>") -> str:
    done = child.run(code, name)
    assert done["status"] == "error", done
    return str(done["error"]["traceback"])


def test_lines_of_the_program_with_carets(child: SandboxProcess) -> None:
    assert trace_of(child, "def ratio(a, b):\n    return 1 + a / b\n\nratio(1, 0)\n") == (
        "Traceback (most recent call last):\n"
        '  File "<block>", line 4, in <module>\n'
        "    ratio(1, 0)\n"
        '  File "<block>", line 2, in ratio\n'
        "    return 1 + a / b\n"
        "               ^^^^^\n"
        "ZeroDivisionError: division by zero"
    )


def test_a_function_of_an_earlier_block_shows_its_own_line(child: SandboxProcess) -> None:
    child.run("def earlier():\n    return missing", "<block 101>")
    text = trace_of(child, "earlier()", "<block 102>")
    assert '  File "<block 102>", line 1, in <module>\n    earlier()\n' in text
    assert '  File "<block 101>", line 2, in earlier\n    return missing\n' in text
    assert child.run("\nearlier()", "<block 103>")["error"]["line"] == 2  # of the block that ran


def test_files_of_the_program_show_their_lines(fresh: SandboxProcess) -> None:
    (fresh.work / "mine.py").write_text("def broken():\n    raise LookupError('here')\n")
    text = trace_of(fresh, "import mine\nmine.broken()")
    assert "    raise LookupError('here')\n" in text


def test_library_frames_are_named_and_folded(child: SandboxProcess) -> None:
    text = trace_of(child, "import json\njson.loads('{')")
    assert 'File "json/decoder.py", line' in text
    assert "worker.py" not in text
    text = trace_of(child, "import re\nre.compile('((((')")
    assert "frames in re/__init__.py and below" in text
    assert text.count("File ") == 2


def test_what_led_to_it(child: SandboxProcess) -> None:
    text = trace_of(child, "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e")
    assert text.index("KeyError: 'a'") < text.index("direct cause") < text.index("ValueError: b")
    text = trace_of(child, "try:\n    {}['a']\nexcept KeyError:\n    1 / 0")
    assert text.index("KeyError: 'a'") < text.index("During handling") < text.index("ZeroDivisionError")
    assert "KeyError" not in trace_of(child, "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError from None")


def test_groups_and_notes(child: SandboxProcess) -> None:
    code = "e = ValueError('inner')\ne.add_note('a hint')\nraise ExceptionGroup('both', [e, TypeError('other')])"
    text = trace_of(child, code)
    for part in (
        "ExceptionGroup: both (2 sub-exceptions)",
        "  | ValueError: inner\n  | a hint\n",
        "  | TypeError: other",
    ):
        assert part in text


def test_recursion_is_reported_in_a_few_lines(child: SandboxProcess) -> None:
    assert "[Previous line repeated" in trace_of(child, "def down(n):\n    return down(n + 1)\ndown(0)")
    text = trace_of(child, "def a(n):\n    b(n)\ndef b(n):\n    a(n)\na(0)")
    assert "frames left out" in text
    assert len(text.splitlines()) < 100


@pytest.mark.parametrize(
    ("code", "line", "lines"),
    [
        ("x = = 1", 1, ["    x = = 1", "        ^", "SyntaxError: invalid syntax"]),
        ("ok = 1\nif ok\n    pass", 2, ["    if ok", "         ^", "SyntaxError: expected ':'"]),
        ("def f():\nreturn 1", 2, ["IndentationError: expected an indented block after function definition on line 1"]),
        ("x = 'open", 1, ["    x = 'open", "        ^"]),
        ("é = 'ü' + + ;", 1, ["    é = 'ü' + + ;", "                ^"]),
        ("return 5", 1, ["    return 5", "    ^^^^^^^^", "SyntaxError: 'return' outside function"]),
        ("x\0y", None, [f"{_OF_NULL}: source code string cannot contain null bytes"]),
        ("(" * 100_000, 1, ["SyntaxError: too many nested parentheses"]),
    ],
)
def test_syntax_errors_point_at_the_place(child: SandboxProcess, code: str, line: int | None, lines: list[str]) -> None:
    (checked,) = child.check(code)
    done = child.run(code)
    for error in (checked["error"], done["error"]):
        found = error["traceback"].splitlines()
        assert error["line"] == line
        assert [text for text in lines if text not in found] == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    def __str__(self): raise KeyError(1)", "(its text could not be made: KeyError)"),
        ("    def __str__(self): return 5", "(its text could not be made: TypeError)"),
        ("    def __str__(self): return '\\ud800'", "\\ud800"),
        ("    def __str__(self): return 'x' * 10**7", "x" * 100),
        ("    __cause__ = property(lambda self: 1 / 0)\n    __traceback__ = 7", "('said',)"),
        ("    def __bool__(self): raise SystemExit", "('said',)"),
        ("    def __getattribute__(self, name): 1 / 0", "('said',)"),
    ],
)
def test_exceptions_that_lie(child: SandboxProcess, body: str, message: str) -> None:
    base = "\n    def __str__(self): return str(BaseException.args.__get__(self))\n"
    start = f"class Liar(Exception):{base if 'said' in message else chr(10)}{body}\n"
    done = child.run(f"{start}\nraise Liar('said')")
    assert (done["status"], done["error"]["type"]) == ("error", "Liar")
    assert done["error"]["message"].startswith(message)
    assert len(done["error"]["message"]) < 10_000
    assert len(done["error"]["traceback"]) <= 21_000
    assert "raise Liar('said')" in done["error"]["traceback"]


def test_long_chains_and_deep_groups_end(child: SandboxProcess) -> None:
    chain = "e = None\nfor i in range(5000):\n    n = ValueError(i)\n    n.__cause__ = e\n    e = n\nraise e"
    assert len(trace_of(child, chain)) < 5_000
    ring = "a = ValueError('a')\nb = ValueError('b')\na.__cause__ = b\nb.__cause__ = a\nraise a"
    assert trace_of(child, ring).count("ValueError: a") == 1
    deep = "e = ValueError(1)\nfor i in range(3000):\n    e = ExceptionGroup('g', [e] * 3)\nraise e"
    assert len(trace_of(child, deep)) <= 21_000


def test_a_pipe_in_place_of_a_source_file_does_not_stop_us(fresh: SandboxProcess) -> None:
    code = "import os\nos.mkfifo('trap.py')\nexec(compile('1/0', os.path.abspath('trap.py'), 'exec'))"
    assert "trap.py" in trace_of(fresh, code)
