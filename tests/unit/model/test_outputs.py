"""Outputs: plain JSON, or a typed error that names the unsupported part. Never a repr, never a silent change."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from pydantic import BaseModel
from tests.unit.model.arguments_kit import JSON, exactly

from clicket.errors import ResultUnserializable
from clicket.model.codec import as_text, decode
from clicket.model.output import encode_output, plain_output


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    tags: set[str] = field(default_factory=set)
    hidden: Any = field(default=None, repr=False)


class Weather(BaseModel):
    city: str
    at: datetime
    level: Level = Level.HIGH
    inner: Weather | None = None


class Figure(BaseModel):
    n: float


class Row(msgspec.Struct):
    id: int
    when: date


Pair = namedtuple("Pair", "left right")  # noqa: PYI024  # the old spelling is what is tested


class Shout(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "SHOUTED"

    def __repr__(self) -> str:
        return "<Shout>"


NOON = datetime(2024, 5, 6, 12, 0, tzinfo=UTC)


def refused(value: Any) -> str:
    with pytest.raises(ResultUnserializable) as error:
        encode_output(value)
    assert error.value.code == "result_unserializable"
    assert " at 0x" not in error.value.message, "never a repr"
    return error.value.message


@given(JSON)
def test_plain_json_comes_back_as_it_was(value: Any) -> None:
    before = copy.deepcopy(value)
    plain, text = plain_output(value)
    assert exactly(plain, before)
    assert exactly(decode(text), before)
    assert exactly(value, before)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        (True, True),
        (1.0, 1.0),
        ("\x00 NUL is text", "\x00 NUL is text"),
        ((1, (2,)), [1, [2]]),
        ([True, 1, 1.0], [True, 1, 1.0]),
        ({1}, [1]),
        (frozenset({"a"}), ["a"]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (defaultdict(list, {"a": [1]}), {"a": [1]}),
        (MappingProxyType({"a": {1}}), {"a": [1]}),
        (Pair(1, "r"), [1, "r"]),
        (NOON, "2024-05-06T12:00:00+00:00"),
        (date(2024, 5, 6), "2024-05-06"),
        (time(1, 2, 3), "01:02:03"),
        (timedelta(minutes=1.5), 90.0),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (PurePosixPath("/a/b"), "/a/b"),
        (Path("x"), "x"),
        (Point(1, {"t"}), {"x": 1, "tags": ["t"], "hidden": None}),
        (
            Weather(city="Rome", at=NOON, inner=Weather(city="Oslo", at=NOON)),
            {
                "city": "Rome",
                "at": "2024-05-06T12:00:00+00:00",
                "level": 3,
                "inner": {"city": "Oslo", "at": "2024-05-06T12:00:00+00:00", "level": 3, "inner": None},
            },
        ),
        (Row(id=1, when=date(2024, 5, 6)), {"id": 1, "when": "2024-05-06"}),
        ({"rows": [Row(id=2**70, when=date(2024, 5, 6))]}, {"rows": [{"id": 2**70, "when": "2024-05-06"}]}),
        ({None: "b", True: "c"}, {"null": "b", "true": "c"}),
        ({2: "a"}, {"2": "a"}),
        ({Colour.RED: 1}, {"red": 1}),
        ({"a": Point(1), "b": [Point(2)]}, {
            "a": {"x": 1, "tags": [], "hidden": None},
            "b": [{"x": 2, "tags": [], "hidden": None}],
        }),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip  # pairs of what a tool returns and what is kept
def test_well_known_values_are_converted(value: Any, wanted: Any) -> None:
    plain, text = plain_output(value)
    assert exactly(plain, wanted)
    assert exactly(decode(text), wanted)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63) - 1, 10**400])
def test_whole_numbers_stay_exact(number: int) -> None:
    value = {"n": number, "m": [number]}
    assert exactly(decode(encode_output(value)), value)
    assert exactly(plain_output((number,))[0], [number])
    assert str(number) in as_text(value)


def test_numbers_of_5000_digits_are_exact_or_refused() -> None:
    try:
        plain, text = plain_output({"n": 10**5000})
    except ResultUnserializable:
        return
    assert plain == decode(text) == {"n": 10**5000}


def test_text_of_a_class_of_its_own_is_kept_as_its_characters() -> None:
    assert exactly(plain_output(Shout("quiet"))[0], "quiet")
    assert exactly(plain_output({"a": [Shout("quiet")]})[0], {"a": ["quiet"]})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    assert "/a/1" in refused({"a": [1, value]})
    assert "(result)" in refused(value)
    assert "/n" in refused(Figure(n=value))
    refused({"a": (value,)})
    assert "/x" in refused(Point(value))  # type: ignore[arg-type]


def looped(kind: str) -> Any:
    if kind == "list":
        items: list[Any] = []
        items.append(items)
        return items
    if kind == "dict":
        table: dict[str, Any] = {}
        table["a"] = {"b": table}
        return table
    if kind == "tuple":
        inner: list[Any] = []
        value = (inner,)
        inner.append(value)
        return value
    if kind == "set in dict":
        table = {"s": {1}}
        table["t"] = table
        return table
    point = Point(1)
    point.hidden = [point]
    return point


@pytest.mark.parametrize("kind", ["list", "dict", "tuple", "set in dict", "dataclass"])
def test_a_result_that_contains_itself_is_refused(kind: str) -> None:
    assert "itself" in refused(looped(kind)) or "cyclic" in refused(looped(kind))


def test_the_same_part_twice_is_no_cycle() -> None:
    part = {"x": {1}}
    assert plain_output([part, part, {"again": part}])[0] == [{"x": [1]}, {"x": [1]}, {"again": {"x": [1]}}]


@pytest.mark.parametrize("depth", [600, 5_000, 100_000])
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "with a set"])
def test_deep_results_are_kept_or_refused(depth: int, plain: bool) -> None:
    value: Any = [] if plain else {1}
    for _ in range(depth):
        value = [value]
    try:
        try:
            text = encode_output(value)
        except ResultUnserializable as error:
            text = error.message.encode()
        assert text.count(b"[") == depth + 1 or b"deep" in text
    finally:
        while value and isinstance(value, list):
            value = value[0]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (b"bytes", "base64"),
        (bytearray(b"x"), "base64"),
        (memoryview(b"x"), "base64"),
        ((n for n in [1]), "generator"),
        (iter([1]), "list_iterator"),
        (map(str, [1]), "map"),
        (object(), "object"),
        (SimpleNamespace(a=1), "SimpleNamespace"),
        (1j, "complex"),
        (print, "builtin_function_or_method"),
        (int, "type"),
        (Point, "type"),
        (Weather, "ModelMetaclass"),
        (ValueError("x"), "ValueError"),
        (range(3), "range"),
        (..., "ellipsis"),
        ("\ud800", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({(1, 2): 3}, "tuple"),
        ({b"k": 3}, "bytes"),
        ({1.5: 3}, "float"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else type(value).__name__,
)
def test_what_is_no_json_is_refused_and_named(value: Any, part: str) -> None:
    assert part in refused(value)
    assert "/deep/0" in refused({"deep": [value]})


async def coroutine() -> None: ...


def test_a_coroutine_that_was_not_awaited_is_refused() -> None:
    made = coroutine()
    try:
        assert "coroutine" in refused(made)
    finally:
        made.close()


def test_two_keys_that_become_one_are_refused_or_kept_apart() -> None:
    """{1: "a", "1": "b"} has two entries; silently losing one would alter the result."""
    try:
        plain = plain_output({1: "a", "1": "b"})[0]
    except ResultUnserializable:
        return
    assert sorted(plain.values()) == ["a", "b"]


class Broken:
    def model_dump(self) -> Any:
        raise RuntimeError("cannot be dumped")


def test_a_model_that_cannot_be_dumped_is_a_typed_error() -> None:
    assert "model_dump" in refused(Broken()) or "cannot be dumped" in refused(Broken())


class Magic:
    """Has every attribute, as mocks do."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: Magic()


def test_an_object_that_answers_to_every_name_is_refused() -> None:
    refused(Magic())


class Sly(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def test_values_of_other_classes_become_plain_ones() -> None:
    assert exactly(plain_output([Sly(1), Level.HIGH])[0], [1, 3])


def test_nothing_is_shared_with_the_tool() -> None:
    inner = {"n": [1]}
    plain = plain_output({"a": inner})[0]
    inner["n"].append(2)
    assert plain == {"a": {"n": [1]}}


@pytest.mark.parametrize(
    ("value", "text"),
    [("plain", "plain"), ("", ""), (None, "null"), (1.5, "1.5"), ({"a": "ü"}, '{"a":"ü"}'), ([], "[]"), (True, "true")],
)
def test_the_text_that_a_model_reads(value: Any, text: str) -> None:
    assert as_text(value) == text
