"""Arguments as callers send them: what is accepted, what is refused."""

from __future__ import annotations

import copy
import json
import math
from collections import OrderedDict, UserDict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.model.arguments_kit import (
    MB,
    NUMBERS,
    OBJECTS,
    TEXT,
    Colour,
    Level,
    exactly,
    parse,
    paths,
    problems,
)

from clicket.errors import InvalidInput
from clicket.model.arguments import object_in
from clicket.model.codec import decode, encode

# Accepted.


@given(st.dictionaries(TEXT, st.none() | st.booleans() | NUMBERS | TEXT, max_size=4))
def test_a_short_object_of_scalars_is_read_as_the_parser_reads_it(value: dict[str, Any]) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1)):
        found = object_in(text)
        assert found is None or exactly(found, parse(text))


def test_what_is_a_short_object_for_sure() -> None:
    assert object_in(' {"a": 1, "b": "x", "c": null} ') == {"a": 1, "b": "x", "c": None}
    assert object_in("{}") == {}


@pytest.mark.parametrize(
    "text",
    ["", "null", "[1]", '"{}"', '{"a": 1', '{"a": 1, "a": 2}', '{"a": "x:y"}', '{"a": {"b": 1, "b": 2}}', '{"a": "é"}',
     '{"a": "' + "x" * 600 + '"}', '{"a": NaN}'],
)  # fmt: skip
def test_all_else_is_left_to_the_parser(text: str) -> None:
    assert object_in(text) is None


@given(OBJECTS)
def test_a_mapping_comes_back_as_it_was(value: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    got = parse(value)
    assert exactly(got, before)
    assert exactly(value, before), "the caller's object is unchanged"


@given(OBJECTS)
def test_text_is_read_as_the_standard_library_reads_it(value: dict[str, Any]) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert exactly(parse(text), json.loads(text))
        assert exactly(parse(text.encode()), json.loads(text))


@given(OBJECTS)
def test_what_was_taken_survives_the_journal(value: dict[str, Any]) -> None:
    assert exactly(decode(encode(parse(value))), value)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, {}),
        ("", {}),
        ({}, {}),
        (b"{}", {}),
        (bytearray(b'{"a": 1}'), {"a": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": {"b": 1}}), {"a": {"b": 1}}),
        (UserDict(a=1), {"a": 1}),
        ({"a": MappingProxyType({"b": [1]})}, {"a": {"b": [1]}}),
        ({"a": (1, (2, [3]))}, {"a": [1, [2, [3]]]}),
        ({"a": 1.0, "b": 1, "c": True, "d": -0.0}, {"a": 1.0, "b": 1, "c": True, "d": -0.0}),
        ('{"a": 1.0, "b": 1E2, "c": -0}', {"a": 1.0, "b": 100.0, "c": 0}),
        (r'{"a": "\ud83d\ude00"}', {"a": "😀"}),
        ('{"": {"": 1}}', {"": {"": 1}}),
        (' \r\n\t{"a" : [ ] } \n', {"a": []}),
    ],
)
def test_taken(given: Any, wanted: dict[str, Any]) -> None:
    assert exactly(parse(given), wanted)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63) - 1, 10**400, -(10**400)])
@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
def test_whole_numbers_stay_exact(number: int, as_text: bool) -> None:
    value = {"n": number, "deep": [{"n": number}]}
    got = parse(json.dumps(value) if as_text else value)
    assert exactly(got, value)
    assert exactly(decode(encode(got)), value), "in the journal, too"


@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
def test_numbers_of_5000_digits_are_exact_or_refused(as_text: bool) -> None:
    number = 10**5000
    try:
        got = parse('{"n": 1' + "0" * 5000 + "}" if as_text else {"n": number})
    except InvalidInput:
        return
    assert got == {"n": number}
    assert decode(encode(got)) == {"n": number}


def test_enums_of_plain_values_become_their_values() -> None:
    assert exactly(parse({"c": Colour.RED, "n": Level.HIGH}), {"c": "red", "n": 3})


def test_nothing_is_shared_with_the_caller() -> None:
    inner: dict[str, Any] = {"list": [1, {"x": 1}]}
    for arguments in ({"a": inner}, {"a": (inner,)}, {"a": inner, "nul": "ok", "t": (1,)}):
        got = parse(arguments)
        inner["list"][1]["x"] = 2
        inner["list"].append("later")
        assert "later" not in json.dumps(got)
        assert '"x": 2' not in json.dumps(got)
        inner["list"] = [1, {"x": 1}]


# Refused.


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e99999"])
def test_numbers_that_are_none_are_refused_in_text(number: str) -> None:
    problems(f'{{"a": [1, {number}]}}')


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused_in_mappings(value: float) -> None:
    assert paths({"a": [1, {"b~/": value}], "c": value}) == ["/a/1/b~0~1", "/c"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a": 1, "a": 2}', "/a"),
        ('{"a": 1, "a": 1}', "/a"),
        ('{"x": {"a": 1, "a": 2}}', "/x/a"),
        ('{"x": [0, {"y": {"a": 1, "b": 2, "a": 3}}]}', "/x/1/y/a"),
        ('{"x": [[{"a": 1, "a": 2}]]}', "/x/0/0/a"),
        ('{"a/b": {"~": 1, "~": 2}}', "/a~1b/~0"),
        (r'{"x": {"a": 1, "\u0061": 2}}', "/x/a"),
        ('{"": 1, "": 2}', "/"),
    ],
)
def test_duplicate_keys_are_named_with_their_path(text: str, path: str) -> None:
    (problem,) = problems(text)
    assert problem["path"] == path
    assert "more than once" in problem["message"]


def test_every_duplicate_is_named() -> None:
    assert sorted(paths('{"a": {"k": 1, "k": 2}, "b": [{"k": 1, "k": 2}], "c": 1, "c": 2}')) == ["/a/k", "/b/0/k", "/c"]


def test_a_duplicate_inside_a_value_that_is_overwritten_is_still_a_duplicate() -> None:
    assert "/a" in paths('{"a": {"k": 1, "k": 2}, "a": 3}')


@pytest.mark.parametrize("depth", [101, 1_000, 100_000, 300_000])
@pytest.mark.parametrize("shape", ["lists", "objects", "unclosed", "mapping"])
def test_deep_nesting_is_refused_quickly(depth: int, shape: str) -> None:
    value: Any
    if shape == "lists":
        value = '{"a": ' + "[" * depth + "]" * depth + "}"
    elif shape == "objects":
        value = '{"a": ' * depth + "1" + "}" * depth
    elif shape == "unclosed":
        value = '{"a": ' + "[" * depth
    else:
        inner: list[Any] = []
        for _ in range(min(depth, 100_000)):
            inner = [inner]
        value = {"a": inner}
    try:
        problems(value, max_size=10 * MB)
    finally:
        if shape == "mapping":
            while inner:  # unwound by hand: the interpreter's own recursion may be too deep
                inner = inner[0]


def test_brackets_in_text_are_not_depth() -> None:
    value = {"a": "[" * 5_000 + "{" * 5_000, 'q"[[[': '\\"[[[[' * 500}
    assert parse(value) == value
    assert parse(json.dumps(value)) == value


def test_a_wide_object_is_not_a_deep_one() -> None:
    value = {f"k{n}": [{"x": []}] for n in range(1_000)}
    assert parse(value) == value
    assert parse(json.dumps(value)) == value


@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
@pytest.mark.parametrize("bad", ["\ud800", "a\udfffb", "\ude00\ud83d", "\x00", "a\x00b"], ids=ascii)
def test_text_that_stores_cannot_keep_is_refused_with_its_path(bad: str, as_text: bool) -> None:
    value = {"ok": "ü", "list": [0, bad]}
    assert paths(json.dumps(value) if as_text else value) == ["/list/1"]
    keyed = {"deep": {bad: 1}}
    assert paths(json.dumps(keyed) if as_text else keyed) == ["/deep"]
    top = {bad: 1}
    assert paths(json.dumps(top) if as_text else top) == [""]


def test_a_lone_surrogate_in_the_raw_text_is_refused() -> None:
    problems('{"a": "\ud800"}')
    problems('{"\udc00": 1}')


@pytest.mark.parametrize(
    "text",
    [
        "{", "}", "nul", "{]", '{"a"}', '{"a":}', '{"a":1,}', "{'a': 1}", '{a: 1}', '{"a": 1} x', '{"a": 01}', '{"a": 1.}',
        '{"a": .5}', '{"a": +1}', '{"a": 0x1}', '{"a": "\n"}', r'{"a": "\x"}', r'{"a": "\u12"}', '{"a": "', "\x00", '{"a": tru}',
        '{"a": 1}{"b": 2}', "// x\n{}", '\ufeff{"a": 1}', '{"a": [1,]}', '{"a": [1 2]}', '{"a": --1}', '{"a": 1e}', '{"a": 1_0}',
    ],
    ids=ascii,
)  # fmt: skip  # one list of broken texts
def test_what_is_no_json_is_refused(text: str) -> None:
    problems(text)
    problems(text.encode())


@pytest.mark.parametrize("text", [b"\xff\xfe{}", b'{"a": "\xe9"}', b"\x80", '{"a": "ü"}'.encode("utf-16")], ids=ascii)
def test_bytes_that_are_no_utf8_are_refused(text: bytes) -> None:
    problems(text)


@pytest.mark.parametrize(
    "given",
    ["[]", "1", "null", '"x"', "true", [], [("a", 1)], 1, 1.5, True, {1, 2}, object()],
    ids=lambda v: type(v).__name__,
)
def test_what_is_no_object_is_refused(given: Any) -> None:
    (problem,) = problems(given)
    assert "must be an object" in problem["message"]
    assert " at 0x" not in problem["message"], "no repr of foreign objects"


def test_json_inside_a_json_string_gets_a_hint() -> None:
    with pytest.raises(InvalidInput, match="decode it once"):
        parse(json.dumps(json.dumps({"a": 1})))


@pytest.mark.parametrize(
    "value",
    [
        b"x", bytearray(b"x"), {1}, frozenset({1}), object(), 1j, datetime(2024, 1, 1, tzinfo=UTC), Decimal(1), uuid4(),
        Path("x"), iter([]), (n for n in [1]), range(3), print, int, ...,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip  # one list of strangers
def test_values_that_are_no_json_are_refused_with_their_path(value: Any) -> None:
    """Arguments convert nothing: the tool gets what the caller could have sent as text."""
    assert paths({"ok": 1, "list": [{"x": value}]}) == ["/list/0/x"]


@pytest.mark.parametrize(
    "key", [1, 1.5, True, None, (1,), b"k", Decimal(1), Level.HIGH], ids=lambda v: type(v).__name__
)
def test_keys_that_are_no_text_are_refused(key: Any) -> None:
    assert paths({"deep": {key: 1}}) == ["/deep"]
    assert paths({key: 1}) == [""]


def test_a_cyclic_mapping_is_refused() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    problems(cycle)
    loop: list[Any] = []
    loop.append(loop)
    problems({"a": loop})


def test_every_complaint_comes_at_once() -> None:
    assert paths({"a": math.nan, "b": [b"x", {"c": "\x00"}], "d": 1}) == ["/a", "/b/0", "/b/1/c"]


@pytest.mark.parametrize(
    "given", [{"a": "x" * 2000}, {"a": ["x" * 500] * 4}, "x" * 2000, b"x" * 2000, {"x" * 2000: 1}], ids=[*"abcde"]
)
def test_what_is_too_large_is_refused(given: Any) -> None:
    (problem,) = problems(given, max_size=1000)
    assert "1,000" in problem["message"]


def test_size_is_counted_in_bytes() -> None:
    value = {"a": "ü" * 600}
    problems(value, max_size=1000)
    problems(json.dumps(value, ensure_ascii=False), max_size=1000)


class Rude(UserDict):  # type: ignore[type-arg]
    """A mapping whose look-ups fail."""

    def __getitem__(self, key: Any) -> Any:
        raise RuntimeError("not today")


def test_a_mapping_that_raises_is_the_callers_fault_and_is_refused() -> None:
    problems({"a": Rude(b=1)})
    problems(Rude(b=1))


class Liar(int):
    """Claims to equal everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def test_numbers_of_other_classes_become_plain_ones() -> None:
    got = parse({"a": Liar(7), "b": [Liar(8)]})
    assert exactly(got, {"a": 7, "b": [8]})
