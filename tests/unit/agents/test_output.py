"""What an answer must be: schemas of types, answers in a model's text, and the errors that a model reads."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.agents.output import Output
from clicket.errors import InvalidInput, UsageError


class Line(pydantic.BaseModel):
    item: str
    qty: int = pydantic.Field(1, ge=1)


class Invoice(pydantic.BaseModel):
    """An invoice."""

    total: float
    lines: list[Line]
    due: dt.date | None = None

    @pydantic.model_validator(mode="after")
    def _is_positive(self) -> Invoice:
        if self.total < 0:
            raise ValueError("the total must not be negative")
        return self


class Tree(pydantic.BaseModel):
    name: str
    below: list[Tree] = []


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is left of the edge")


class City(TypedDict):
    name: str
    people: int


class Size(msgspec.Struct):
    width: Annotated[int, msgspec.Meta(ge=0)]
    points: list[Point] = []


class Reply(pydantic.BaseModel):
    answer: str


class Lines(pydantic.RootModel[list[str]]):
    pass


POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
OBJECTS = [
    (Invoice, {"total": 1.5, "lines": [{"item": "tea"}], "due": "2026-01-31"}),
    (Tree, {"name": "a", "below": [{"name": "b", "below": []}]}),
    (Point, {"x": 1, "tags": ["a"]}),
    (City, {"name": "Rome", "people": 3}),
    (Size, {"width": 3, "points": [{"x": 1}]}),
    (Reply, {"answer": "yes"}),
    (dict[str, int], {"a": 1}),
    (POINT, {"x": 1}),
]
OTHERS: list[tuple[Any, Any]] = [
    (list[int], [1, 2]),
    (list[Line], [{"item": "tea", "qty": 2}]),
    (Literal["yes", "no"], "yes"),
    (int | None, None),
    (Line | Point, {"x": 1, "y": 2}),
    (Lines, ["a"]),
    (str, "it"),
    (Any, {"a": 1}),
    ({"type": "array", "items": {"$ref": "#/$defs/P"}, "$defs": {"P": POINT}}, [{"x": 1}]),
    ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]]),
    ({"anyOf": [POINT, {"type": "null"}]}, None),
]


@pytest.mark.parametrize(("kind", "value"), OBJECTS + OTHERS, ids=str)
def test_a_schema_has_an_object_at_its_root_and_the_value_is_read(kind: Any, value: Any) -> None:
    output = Output.of(kind)
    assert output.schema["type"] == "object"
    assert not output.schema.keys() & {"$ref", "anyOf", "oneOf", "allOf", "enum", "$schema"}
    assert output.name.replace("_", "").isalnum()
    for written in (value, {"answer": value}) if (kind, value) in OTHERS else (value,):
        assert output.read(json.dumps(written)).value == value
        assert output.read_value(written).value == value


@pytest.mark.parametrize(("kind", "value"), OBJECTS + OTHERS, ids=str)
def test_a_recorded_schema_reads_the_same_values(kind: Any, value: Any) -> None:
    output = Output.of(kind)
    again = Output.from_schema(json.loads(json.dumps(output.schema)))
    assert (again.schema, again.name, again.digest) == (output.schema, output.name, output.digest)
    asked = {"answer": value} if (kind, value) in OTHERS else value
    assert again.read_value(asked).value == value
    assert again.typed(value) == value


def test_typed_values() -> None:
    made = Output.of(Invoice).typed({"total": 1, "lines": [{"item": "tea"}], "due": "2026-01-31"})
    assert made == Invoice(total=1.0, lines=[Line(item="tea")], due=dt.date(2026, 1, 31))
    assert Output.of(Point).typed({"x": 1.0}) == Point(x=1)
    assert Output.of(Size).typed({"width": 2, "points": [{"x": 1}]}) == Size(width=2, points=[Point(x=1)])
    assert Output.of(City).typed({"name": "Rome", "people": 3}) == {"name": "Rome", "people": 3}
    assert Output.of(tuple[int, str]).typed([1, "a"]) == (1, "a")
    assert Output.of(list[Line]).typed([{"item": "tea"}]) == [Line(item="tea")]
    assert Output.of(POINT).typed({"x": 1}) == {"x": 1}
    strict = pydantic.create_model("Strict", at=dt.date, __config__={"strict": True})
    assert Output.of(strict).typed({"at": "2026-01-31"}).at == dt.date(2026, 1, 31)  # type: ignore[attr-defined]  # made here
    with pytest.raises(InvalidInput, match="must not be negative"):
        Output.of(Invoice).typed({"total": -1, "lines": []})


@pytest.mark.parametrize(
    ("kind", "text", "errors"),
    [
        (Invoice, '{"total": -1, "lines": []}', ["(answer): Value error, the total must not be negative"]),
        (
            Invoice,
            '{"total": "a", "lines": [{"item": 3, "qty": 0}], "paid": 1}',
            [
                '/total: "a" is not of type "number"',
                '/lines/0/item: 3 is not of type "string"',
                "/lines/0/qty: 0 is less than the minimum of 1 (and there are more errors)",
            ],
        ),
        (Invoice, '{"total": 1}', ["/lines: it is required"]),
        (
            Invoice,
            '{"total": 1, "lines": [{"item": "a", "quantity": 1}]}',
            ["/lines/0/quantity: there is no such field."],
        ),
        (Point, '{"x": -1}', ["(answer): x is left of the edge"]),
        (Size, '{"width": 1, "points": [{"x": -1}]}', ["/points/0: x is left of the edge"]),
        (list[int], '{"answer": [1, "b"]}', ['/answer/1: "b" is not of type "integer"']),
        (
            int,
            '{"answer": 1, "answer": 2}',
            ['(answer): the key "answer" appears more than once in one object', "Answer with"],
        ),
        (dict[str, float], '{"a": NaN}', ["(answer): NaN is not a JSON number", "Answer with one JSON object"]),
        (dict[str, str], '{"a": "\\u0000"}', ["/a: text with a NUL character is refused"]),
        (
            Line,
            '{"item": "a"} or {"item": "b"}',
            ["(answer): the text has 2 different JSON values that fit the schema."],
        ),
        (Line, "tea", ["(answer): there is no JSON in the text", "Answer with one JSON object that fits the schema"]),
        (list[int], "see [1]", ["(answer): there is no JSON in the text", 'Answer with {"answer": …}']),
        (list[int], '{"list": [1]}', ['(answer): {"list":[1]} is not of type "array"', 'Answer with {"answer": …}']),
        (Line, '{"item": "a', ["(answer): not valid JSON: Unterminated string", "Answer with one JSON object"]),
        (str, "plain text is not JSON", ["(answer): there is no JSON in the text", 'Answer with {"answer": …}']),
    ],
)
def test_errors_say_where_and_what(kind: Any, text: str, errors: list[str]) -> None:
    read = Output.of(kind).read(text)
    assert read.value is None
    assert len(read.errors) == len(errors)
    for line, beginning in zip(read.errors, errors, strict=True):
        assert line.startswith(beginning)


def test_errors_are_few_and_short() -> None:
    output = Output.of({"type": "object", "additionalProperties": {"type": "integer"}})
    read = output.read_value({f"{'k' * 5_000}{number}": "v" * 5_000 for number in range(50)})
    assert len(read.errors) == 3
    assert all(len(line) < 1_000 for line in read.errors)


def test_a_null_for_an_optional_field_means_that_it_is_left_out() -> None:
    assert Output.of(Line).read('{"item": "tea", "qty": null}').value == {"item": "tea"}


def test_a_check_of_the_type_that_fails_is_an_error_of_the_answer() -> None:
    class Broken(pydantic.BaseModel):
        name: str

        @pydantic.field_validator("name")
        @classmethod
        def _known(cls, name: str) -> str:
            return {"a": "b"}[name]

    assert Output.of(Broken).read('{"name": "z"}').errors == ("(answer): the type's own check failed: KeyError: 'z'",)


def test_a_union_that_holds_itself_is_not_searched_through() -> None:
    class Left(pydantic.BaseModel):
        of: Left | Right | int

    class Right(pydantic.BaseModel):
        of: Left | Right | int

    Left.model_rebuild(_types_namespace={"Left": Left, "Right": Right})
    deep: Any = 1
    for _ in range(60):
        deep = {"of": deep}
    errors = Output.of(Left).read_value(deep).errors
    assert len(errors) == 1
    assert "takes too long" in errors[0]


class _Plain:
    pass


_HOLDS_ITSELF: dict[str, Any] = {"type": "object"}
_HOLDS_ITSELF["properties"] = {"a": _HOLDS_ITSELF}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Reply(answer="a"), "an instance of Reply. Give the class itself"),
        (Point(x=1), "an instance of Point"),
        (Size(width=1), "an instance of Size"),
        ("Invoice", "'Invoice' is not a type"),
        (None, "None is not a type"),
        (7, "7 is not a type"),
        (print, "is not a type"),
        ([int], "is not a type"),
        (_Plain, "cannot be described by a JSON Schema"),
        (Size | list[Size] | City, "cannot be described by a JSON Schema"),
        ({}, "is not a JSON Schema"),
        ({"city": "Rome"}, "is not a JSON Schema"),
        ({"type": "strng"}, "cannot be used"),
        ({"type": "object", "properties": 5}, "cannot be used"),
        ({"type": "object", "enum": [object()]}, "is not JSON"),
        ({"$ref": "https://example.com/schema"}, "never fetched"),
        ({"allOf": [{"$ref": "#"}]}, "leads back to itself"),
        (_HOLDS_ITSELF, "holds itself"),
        ({"type": "object", "description": "x" * 1_000_000}, "too big"),
        (
            {
                "$ref": "#/$defs/d0",
                "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)} | {"d30": {}},
            },
            "paths",
        ),
    ],
    ids=lambda given: str(given)[:40],
)
def test_what_is_neither_a_type_nor_a_schema_is_refused(given: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        Output.of(given)
    assert str(caught.value).startswith("output: ")


def test_a_name_is_of_letters_digits_and_underscores() -> None:
    assert Output.of(Invoice).name == "Invoice"
    assert Output.of(list[int]).name == "answer"
    assert Output.of({"title": "Größe: 1 (of 2)", "type": "object"}).name == "Gr_e_1_of_2"
    assert len(Output.of({"title": "n" * 500, "type": "object"}).name) <= 64


def test_the_digest_is_that_of_the_schema() -> None:
    assert Output.of(POINT).digest == Output.of(dict(reversed(POINT.items()))).digest
    assert Output.of(list[int]).digest != Output.of(list[str]).digest


def test_pydantic_is_not_imported_for_types_without_it() -> None:
    program = (
        "import sys, dataclasses, msgspec\n"
        "from clicket.agents.output import Output\n"
        "Point = dataclasses.make_dataclass('Point', [('x', int)])\n"
        "assert Output.of(Point).typed(Output.of(Point).read('{\"x\": 1}').value).x == 1\n"
        "Output.of(list[int]), Output.of({'type': 'object'})\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PROSE = st.text(st.sampled_from("abc ,.:;!?()*_-\n\t'’"), max_size=30)
LINES = st.lists(st.fixed_dictionaries({"item": st.sampled_from(["a", "```", "}{", '"']), "qty": st.integers(1, 9)}))
INVOICES = st.fixed_dictionaries(
    {"total": st.floats(0, 1e9), "lines": LINES}, optional={"due": st.none() | st.dates().map(str)}
)
ANYWHERE = ["{}", "{before}\n```json\n{}\n```\n{after}", "{before}```{}```{after}", "{before}{}{after}"]
ON_ITS_LINE = ["{}", "{before}\n```\n{}\n```{after}", "{before}\n{}\n{after}"]


@given(INVOICES, PROSE, PROSE, st.sampled_from(ANYWHERE), st.booleans())
def test_an_object_is_read_wherever_it_is_written(
    value: Any, before: str, after: str, form: str, indented: bool
) -> None:
    text = form.format(json.dumps(value, indent=2 if indented else None), before=before, after=after)
    read = Output.of(Invoice).read(text)
    assert read.errors == ()
    assert read.value == value
    Output.of(Invoice).typed(read.value)


@given(st.lists(st.integers()), PROSE, PROSE, st.sampled_from(ON_ITS_LINE), st.booleans())
def test_an_array_is_read_in_a_fence_or_on_its_own_line(
    value: Any, before: str, after: str, form: str, wraps: bool
) -> None:
    text = form.format(json.dumps({"answer": value} if wraps else value), before=before, after=after)
    assert Output.of(list[int]).read(text).value == value


@given(JSON)
def test_any_value_is_read_from_its_wrapper(value: Any) -> None:
    assert Output.of(Any).read(json.dumps({"answer": value})).value == value


@given(
    st.sampled_from([Output.of(kind) for kind in (Invoice, list[int], int | None, Any, POINT)]),
    st.text() | st.text(st.sampled_from('{}[]",:`json\\ \n10.eE-nulltruefalse\x00\ud800')) | JSON.map(json.dumps),
)
def test_no_text_raises(output: Output[Any], text: str) -> None:
    read = output.read(text)
    assert len(read.errors) <= 3
    if not read.errors:
        output.typed(read.value)


@given(st.sampled_from([Output.of(kind) for kind in (Invoice, list[int], Any)]), JSON | st.binary() | st.just(object()))
def test_no_value_raises(output: Output[Any], value: Any) -> None:
    output.read_value(value)
