"""Every regular expression of the package takes time that grows no faster than its text, whatever the text is.

The texts are made from the expression's own structure. `make test` tries a sample of them, always the same one, and `make test-all`
all of them. The figures are printed: `pytest -rP tests/adversarial`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from heapq import nlargest
from re._constants import ANY, IN, LITERAL, NOT_LITERAL, POSSESSIVE_REPEAT  # type: ignore[attr-defined]
from re._parser import SubPattern, parse  # type: ignore[attr-defined]
from typing import Any

import pytest
from tests.adversarial.expressions import ROOT, Expression, Hard, expressions, fitted, hard_texts
from tests.adversarial.inventory import BOUNDED, MADE, NOT_OUTSIDE
from tests.adversarial.measuring import Growth, cpu, growth

_SAMPLE = 50
_LOOK = 300
_SIZE = 1_000
_WORST_KEPT = 3
_PARTS = 4
"""Tests that measure them, each a part: a test for each expression would need all of them, and the whole package, at collection."""


Use = Callable[[re.Pattern[Any], Any], object]


@cache
def _bounded_seconds() -> float:
    """What an expression over a bounded text may take: as long as this machine counts to 600,000, some 20 ms."""
    return min(cpu(lambda count: sum(1 for _ in range(count)), 600_000) for _ in range(3))


def _scan(pattern: re.Pattern[Any], text: Any) -> object:
    return sum(1 for _ in pattern.finditer(text))


def _uses(expression: Expression) -> list[Use]:
    """The ways in which the package uses it, as far as their times differ."""
    uses: list[Use] = [_scan] if expression.scans else []
    if "match" in expression.methods:
        uses.append(re.Pattern.match)
    if "fullmatch" in expression.methods:
        uses.append(re.Pattern.fullmatch)
    return uses


def _grown(use: Use, pattern: re.Pattern[Any], hard: Hard) -> Growth:
    return growth(partial(use, pattern), lambda size: fitted(pattern, hard.text(size)), _SIZE)


def _seconds(use: Use, pattern: re.Pattern[Any], hard: Hard, size: int) -> float:
    return cpu(partial(use, pattern), fitted(pattern, hard.text(size)))


def _shortest(use: Use, pattern: re.Pattern[Any], hard: Hard, size: int) -> float:
    """Measured again when it looks long: a busy machine makes a single measurement longer, never all of them."""
    seconds = _seconds(use, pattern, hard, size)
    for _ in range(9):
        if seconds < _bounded_seconds():
            break
        seconds = min(seconds, _seconds(use, pattern, hard, size))
    return seconds


def _worst(expression: Expression, texts: list[Hard]) -> str:
    """Measure the hardest of the texts; returns the figures, or fails."""
    pattern = expression.pattern
    assert pattern is not None
    lines: list[str] = []
    for use in _uses(expression):
        if expression.where in BOUNDED:
            most = BOUNDED[expression.where][0]
            seconds = max(_shortest(use, pattern, each, most) for each in texts)
            lines.append(f"{most} characters at most: {seconds * 1e3:.2f} ms")
            assert seconds < _bounded_seconds(), f"{expression.where}: {lines[-1]}"
            continue
        taken = [(_seconds(use, pattern, each, _LOOK), each) for each in texts]
        for _, hard in nlargest(_WORST_KEPT, taken, key=lambda pair: pair[0]):
            measured = _grown(use, pattern, hard)
            lines.append(str(measured))
            assert measured.fits, f"{expression.where}: {measured}, on {hard}"
    return max(lines, key=len, default="")


def _measure(part: int, parts: int, sample: int | None) -> None:
    """Measure every expression of this part; print the figures, and fail with those of all that do not fit."""
    known = [each for each in expressions() if each.pattern is not None and each.where not in NOT_OUTSIDE]
    assert len(known) > 200, "the inventory finds them"
    wrong = []
    for expression in known[part::parts]:
        assert expression.pattern is not None
        try:
            print(f"{expression.where}: {_worst(expression, hard_texts(expression.pattern, sample))}")
        except AssertionError as error:
            wrong.append(str(error))
    assert wrong == []


def repeats_of_groups(parsed: Any) -> list[Any]:
    """What is repeated possessively, more than one character each time."""
    found = []
    for kind, given in parsed:
        if kind is POSSESSIVE_REPEAT and (len(given[2]) != 1 or given[2][0][0] not in (IN, LITERAL, NOT_LITERAL, ANY)):
            found.append(given)
        for part in given if isinstance(given, tuple | list) else [given]:
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, SubPattern):
                    found += repeats_of_groups(inner)
    return found


def test_no_expression_repeats_a_group_possessively() -> None:
    """`(?:ab)*+` matches wrongly before Python 3.11.5, and takes for ever (python/cpython#106052). `(?>(?:ab)*)` means the same."""
    assert repeats_of_groups(parse(r"x(?:(?:ab)*+|c)"))
    assert not repeats_of_groups(parse(r"[ab]*+(?>(?:ab)*)"))
    wrong = [each.where for each in expressions() if each.pattern and repeats_of_groups(parse(_text(each.pattern)))]
    assert wrong == []


def _text(pattern: re.Pattern[Any]) -> str:
    return pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")


@pytest.mark.parametrize("part", range(_PARTS))
def test_expressions_are_linear(part: int) -> None:
    _measure(part, _PARTS, _SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_expressions_are_linear_on_every_text(part: int) -> None:
    _measure(part, 20, None)


def test_each_expression_is_measured_or_has_a_reason() -> None:
    """An expression that is built at run time needs its own cases; see `inventory.py`."""
    unknown = [each.where for each in expressions() if each.pattern is None and each.where not in MADE | NOT_OUTSIDE]
    assert unknown == [], "add cases for these to MADE in tests/adversarial/inventory.py, or a reason to NOT_OUTSIDE"


def test_no_reason_is_left_over() -> None:
    there = {each.where for each in expressions()}
    assert set(MADE) | set(NOT_OUTSIDE) | set(BOUNDED) <= there


def test_expressions_are_made_in_one_way() -> None:
    """Only through `re.…`, so that the inventory finds them."""
    pattern = re.compile(r"^\s*(?:from re import|import regex|from regex|import re as)", re.MULTILINE)
    assert [str(path) for path in ROOT.rglob("*.py") if pattern.search(path.read_text())] == []
