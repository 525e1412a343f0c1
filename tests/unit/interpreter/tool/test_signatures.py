"""Tools as Python signatures. Schemas may come from strangers: what is made of them is short, printable, and one line."""

from __future__ import annotations

import sys
from typing import Any, Literal

import msgspec
import pytest

from clicket import tool
from clicket.interpreter.tool.signatures import attributes_of, signature_of
from clicket.tools import Options, as_tool


class Bill(msgspec.Struct):
    item: str
    cents: int
    note: str | None = None


class Foreign:
    """A tool from outside, with a schema of its own."""

    name, description, is_async, options = "foreign", "", True, Options()

    def __init__(self, schema: Any) -> None:
        self.input_schema = schema

    def bind(self, arguments: dict[str, Any]) -> Any:
        return arguments

    async def run(self, bound: Any, ctx: Any) -> None: ...


def text_of(given: Any) -> str:
    made = as_tool(given)
    return signature_of(made, made.name).text


def test_functions_look_as_they_were_written() -> None:
    @tool
    def order(
        item: str, count: int = 1, kind: Literal["fast", "slow"] = "slow", tags: list[str] | None = None
    ) -> dict[str, int]:
        """Order things. Not twice.

        More about it.
        """
        return {}

    made = signature_of(order, "order")
    assert made.text == (
        "order(item: str, count: int = 1, kind: Literal['fast', 'slow'] = 'slow', tags: list[str] | None = None) -> dict[str, int]"
    )
    assert made.summary == "Order things."
    assert made.entry()["parameters"][0] == ("item", "str", None)


def test_what_is_returned_is_named_with_its_fields() -> None:
    @tool
    def bill(number: int) -> Bill:
        return Bill("tea", number)

    assert text_of(bill) == "bill(number: int) -> {'item': str, 'cents': int, 'note'?: str | None}"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"enum": ["a", 1, None]}, "Literal['a', 1, None]"),
        ({"const": True}, "Literal[True]"),
        ({"type": "array", "items": {"$ref": "#/$defs/P"}}, "list[{'x': float}]"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]"),
        ({"$ref": "#/$defs/Loop"}, "Any"),
        ({"$ref": "#/$defs/nothing"}, "Any"),
        ({"type": "object", "properties": {f"field{n}": {"type": "string"} for n in range(100)}}, "dict"),
        ({"enum": ["x" * 500]}, "Literal[...]"),
        ({"type": "magic"}, "Any"),
        ({}, "Any"),
    ],
)
def test_types(schema: Any, expected: str) -> None:
    definitions = {
        "P": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}]},
    }
    whole = {"type": "object", "properties": {"n": schema}, "required": ["n"], "$defs": definitions}
    assert text_of(Foreign(whole)) == f"foreign(n: {expected}) -> Any"


def test_odd_names_stay_text() -> None:
    schema = {
        "type": "object",
        "properties": {
            "user-id": {"type": "string"},
            "class": {"type": "string"},
            "x): import os\n#": {"type": "string"},
        },
        "required": ["user-id"],
    }
    made = signature_of(as_tool(Foreign(schema)), "foreign")
    assert "\n" not in made.text
    assert "**{'user-id': str}" in made.text
    assert made.entry()["parameters"] == []


def test_required_parameters_come_first() -> None:
    schema = {"type": "object", "properties": {"a": {"default": 1}, "b": {"type": "string"}}, "required": ["b"]}
    assert text_of(Foreign(schema)) == "foreign(b: str, a: Any = 1) -> Any"


def test_names_become_attributes_once() -> None:
    names = ["get-price", "get_price", "import", "1st", "a.b", "__class__", "ok"]
    assert attributes_of(names) == {
        "get-price": "", "get_price": "get_price", "import": "import_", "1st": "_1st", "a.b": "a_b", "__class__": "", "ok": "ok",
    }  # fmt: skip


def test_references_to_the_same_parts_are_read_once() -> None:
    levels = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"} for _ in range(12)]} for n in range(8)}

    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**levels, "d8": {}}}
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    wide, before = as_tool(Foreign(schema)), sys.getprofile()
    sys.setprofile(count)
    try:
        signature = signature_of(wide, "wide")
    finally:
        sys.setprofile(before)
    assert signature.text == "wide(a: Any = None) -> Any"
    assert calls < 1_000
