"""Schemas of answers in each vendor's subset, and the nulls that stand for fields that are left out."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.tools.answer_schema import answer_schema
from clicket.tools.model_arguments import tidy, without_nulls

TEXT = {"type": "string"}


def closed(*required: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


LINE = closed("item", item=TEXT, qty={"type": "integer", "minimum": 1, "default": 1})
CAT = closed("kind", kind={"const": "cat"}, lives={"type": "integer"})
DOG = closed("kind", kind={"const": "dog"}, name=TEXT)
ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "first": {"$ref": "#/$defs/Line", "description": "The first one."},
        "pet": {"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "discriminator": {"propertyName": "kind"}},
        "note": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}], "default": None},
    },
    "required": ["lines"],
    "$defs": {"Line": LINE, "Cat": CAT, "Dog": DOG},
}
TREE = {
    "type": "object",
    "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "$defs": {"Tree": closed(below={"type": "array", "items": {"$ref": "#/$defs/Tree"}})},
}


def test_openai_gets_every_field_required_and_null_for_those_that_may_be_left_out() -> None:
    made = answer_schema(ORDER, "openai")
    assert made is not None
    assert made["required"] == ["lines", "first", "pet", "note"]
    assert made["additionalProperties"] is False
    assert made["properties"]["first"] == {
        "anyOf": [{"anyOf": [{"$ref": "#/$defs/Line"}]}, {"type": "null"}],
        "description": "The first one.",
    }
    assert made["properties"]["note"] == {
        "anyOf": [{"type": "string", "description": "(minLength: 2)"}, {"type": "null"}]
    }
    assert made["$defs"]["Line"] == closed(
        "item", "qty", item=TEXT, qty={"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}
    )
    assert "oneOf" not in str(made)
    assert "default" in LINE["properties"]["qty"], "the schema itself is unchanged"


def test_anthropic_gets_limits_as_descriptions_and_no_circles() -> None:
    made = answer_schema(ORDER, "anthropic")
    assert made is not None
    assert made["required"] == ["lines"]
    assert made["$defs"]["Line"] == closed("item", item=TEXT, qty={"type": "integer", "description": "(minimum: 1)"})
    assert answer_schema(TREE, "openai") is not None
    assert answer_schema(TREE, "anthropic") is None
    assert answer_schema({**closed(a={"$ref": "#"})}, "anthropic") is None


@pytest.mark.parametrize(
    "field",
    [
        {},
        True,
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "array"},
        {"type": "array", "prefixItems": [TEXT]},
        {"not": TEXT},
        {"allOf": [TEXT, {"minLength": 2}]},
        {"anyOf": []},
        {"anyOf": [TEXT], "oneOf": [TEXT]},
        {"enum": [{"a": 1}]},
        {"$ref": "#/properties/g"},
        {"$ref": "#/$defs/T", "minLength": 2, "enum": ["a"]},
        {"type": "string", "unknown": 1},
    ],
)
def test_what_a_vendor_cannot_say(field: Any) -> None:
    schema = {**closed("f", "g", f=field, g=TEXT), "$defs": {"T": TEXT}}
    assert answer_schema(schema, "openai") is None
    assert answer_schema(schema, "anthropic") is None


def test_a_schema_over_the_vendors_limits_is_not_sent_as_a_strict_one() -> None:
    assert answer_schema({"anyOf": [LINE, CAT]}, "openai") is None
    assert answer_schema(closed(a={"enum": list(range(1_001))}), "openai") is None
    assert answer_schema(closed(**{f"f{n}": TEXT for n in range(25)}), "anthropic") is None
    assert answer_schema(closed(**{f"f{n}": TEXT for n in range(25)}), "openai") is not None
    unions = {f"f{n}": {"type": ["string", "null"]} for n in range(17)}
    assert answer_schema(closed(*unions, **unions), "anthropic") is None
    deep: dict[str, Any] = TEXT
    for _ in range(5_000):
        deep = {"type": "array", "items": deep}
    assert answer_schema(closed(a=deep), "openai") is None


def test_patterns_that_look_back_and_unknown_formats_are_described() -> None:
    made = answer_schema(
        closed("a", "b", a={**TEXT, "pattern": "^(?=x)", "description": "An a."}, b={**TEXT, "format": "color"}),
        "openai",
    )
    assert made is not None
    assert made["properties"]["a"] == {**TEXT, "description": "An a. (pattern: ^(?=x))"}
    assert made["properties"]["b"] == {**TEXT, "description": "(format: color)"}


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"lines": [{"item": "a", "qty": None}]}, {"lines": [{"item": "a"}]}),
        ({"lines": [], "first": None, "note": None}, {"lines": [], "note": None}),
        ({"lines": [], "pet": {"kind": "dog", "name": None}}, {"lines": [], "pet": {"kind": "dog"}}),
        ({"lines": None}, {"lines": None}),
        ({"lines": [{"item": None}], "other": None}, {"lines": [{"item": None}], "other": None}),
        ({"pet": {"kind": "cow", "name": None}}, {"pet": {"kind": "cow", "name": None}}),
        ({"lines": 7, "first": [None]}, {"lines": 7, "first": [None]}),
    ],
)
def test_nulls_for_fields_that_are_left_out_are_removed(value: Any, left: Any) -> None:
    assert without_nulls(value, ORDER) == left
    assert tidy(value, ORDER) == left


def test_a_value_without_such_nulls_is_not_copied() -> None:
    value = {"lines": [{"item": "a", "qty": 1}], "note": None}
    assert without_nulls(value, ORDER) is value


def test_looking_for_nulls_is_bounded() -> None:
    union = {"anyOf": [closed(**{f"f{n}": TEXT}) for n in range(1_000)]}
    many = [{"x": None}] * 1_000
    assert without_nulls(many, {"type": "array", "items": union}) is many
    deep: Any = {"a": None}
    for _ in range(5_000):
        deep = {"a": deep}
    assert without_nulls(deep, closed(a={"$ref": "#"})) is deep
    assert without_nulls(
        {"a": {"b": None}}, {**closed(a={"$ref": "#/$defs/c"}), "$defs": {"c": {"$ref": "#/$defs/c"}}}
    ) == {"a": {"b": None}}
