"""Equal arguments, what stands for them in a hash, and the fast path for a few scalars."""

from __future__ import annotations

import json
import math
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.model.arguments_kit import JSON, MB, OBJECTS, TEXT, Colour, Level, exactly, parse

import clicket.model.arguments
from clicket.errors import InvalidInput
from clicket.model.arguments import weigh
from clicket.model.codec import canonical, json_pointer

# Sameness.


@given(OBJECTS)
def test_canonical_text_ignores_the_order_of_keys(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical(turned) == canonical(value)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": [1e3]}, {"a": [1000]}, True),
        ({"a": 0.0}, {"a": -0.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 0}, {"a": False}, False),
        ({"a": None}, {}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": 2**53}, {"a": 2**53 + 1}, False),
        ({"a": 2**64}, {"a": 2**64 + 1}, False),
        ({"a": 1e300}, {"a": 10**300}, False),
        ({"é": 1}, {"e\u0301": 1}, False),
    ],
)
def test_sameness(a: Any, b: Any, same: bool) -> None:
    assert (canonical(a) == canonical(b)) is same


def test_huge_floats_have_one_spelling_too() -> None:
    assert canonical({"a": 1.7e308})


def cycle() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["self"] = made
    return made


@pytest.mark.parametrize(
    "given",
    ['{"a": 1}', b"\xff\xfe", "\ud800", {"a": 1}, object(), {"a": "\ud800"}, None, cycle(), {"n": 10**5000}, {(1,): 1}],
    ids=[*"abcdefghij"],
)
def test_arguments_can_always_be_weighed(given: Any) -> None:
    size, raw = weigh(given)
    assert (size, raw) == weigh(given), "the same again"
    assert size > 0


@given(OBJECTS)
def test_equal_arguments_weigh_the_same_as_text_and_as_a_mapping(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    text = json.dumps(turned, indent=1)
    assert weigh(value) == weigh(MappingProxyType(turned)) == weigh(text) == weigh(text.encode())


def test_what_is_not_valid_json_stands_for_itself() -> None:
    assert weigh('{"a": 1, "a": 1}') == (16, b'{"a": 1, "a": 1}'), "a key appears twice"
    assert weigh(b"\xff") == (1, b"\xff")
    assert weigh("[1]") != weigh("[1 ]")
    assert weigh({"a": "\ud800"}) != weigh({"a": "\ud801"})
    assert weigh(None) == weigh("") == weigh({}), "no arguments"
    long = "[" + "1," * (MB // 2) + "1]"
    assert weigh(long) == (len(long), long.encode()[:MB]), "of a big text the beginning"


def test_pointers_are_written_as_the_rfc_says() -> None:
    assert json_pointer([]) == ""
    assert json_pointer(["a/b", 0, "~x", ""]) == "/a~1b/0/~0x/"


# The fast path checks a few scalars by type; the full check must agree.

ODD = st.sampled_from(
    [math.nan, math.inf, -math.inf, 2**63, -(2**63), 2**64, 10**400, "\x00", "a\x00b", "\ud800", "é", "😀", Colour.RED, Level.HIGH]
)  # fmt: skip
FLAT = st.dictionaries(TEXT | ODD.filter(lambda each: isinstance(each, str)) | st.integers(), JSON | ODD, max_size=4)


@given(FLAT, st.sampled_from([0, 40, 100, 300, MB]))
def test_the_short_proof_agrees_with_the_whole_one(value: dict[Any, Any], max_size: int) -> None:
    def outcome() -> tuple[str, Any]:
        try:
            return "taken", parse(value, max_size)
        except InvalidInput as refused:
            return "refused", refused.problems

    kind, got = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clicket.model.arguments, "_FEW", -1)
        wanted = outcome()
    assert kind == wanted[0]
    assert exactly(got, wanted[1])


def test_the_short_proof_gives_a_copy() -> None:
    given = {"a": 1, "b": "text", "c": None, "d": 1.5, "e": True}
    got = parse(given)
    assert got == given
    assert got is not given
