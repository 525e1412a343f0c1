"""Shared by the tests of `arguments`."""

from __future__ import annotations

import math
from enum import Enum, IntEnum
from typing import Any

import pytest
from hypothesis import strategies as st

from clicket.errors import InvalidInput
from clicket.model.arguments import parse_arguments

__all__ = ["JSON", "MB", "NUMBERS", "OBJECTS", "TEXT", "Colour", "Level", "exactly", "parse", "paths", "problems"]

MB = 1024 * 1024


# JSON that clicket accepts: no NUL, no lone surrogate.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


OBJECTS = st.dictionaries(TEXT, JSON, max_size=5)


def parse(given: Any, max_size: int = MB) -> dict[str, Any]:
    return parse_arguments(given, max_size=max_size)


def problems(given: Any, max_size: int = MB) -> list[dict[str, str]]:
    with pytest.raises(InvalidInput) as refused:
        parse(given, max_size)
    assert refused.value.code == "invalid_input"
    assert refused.value.problems
    assert refused.value.message
    return refused.value.problems


def paths(given: Any) -> list[str]:
    return [problem["path"] for problem in problems(given)]


def exactly(a: Any, b: Any) -> bool:
    """Equal, and of the same types at every level: 1, 1.0 and True differ; so do 0.0 and -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(exactly(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(exactly, a, b))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


class Colour(str, Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3
