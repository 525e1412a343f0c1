"""Arguments and the schema of a grant: defaults count at every depth, and in doubt a person is asked."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.engine.stages.grant_terms import check_schema, fit_schema
from clicket.engine.stages.rules import with_defaults
from clicket.errors import UsageError

EXPLOSIVE = {
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {}},
    "$ref": "#/$defs/d0",
}
SMALL = {"properties": {"amount": {"maximum": 10}}}


@pytest.mark.parametrize(
    ("schema", "arguments", "declared", "fits"),
    [
        (None, {"amount": 1_000}, {}, True),
        (SMALL, {"amount": 10}, {}, True),
        (SMALL, {"amount": 11}, {}, False),
        (SMALL, {"to": "x"}, {}, True),
        (SMALL, {}, {"properties": {"amount": {"default": 100}}}, False),
        (SMALL, {}, {"properties": {"amount": {"default": 5}}}, True),
        (SMALL, {}, {"allOf": [{"properties": {"amount": {"default": 100}}}]}, False),
        (SMALL, {}, {"properties": {"amount": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"default": 100}}}, False),
        (SMALL, {}, {"properties": {"amount": {"anyOf": [{"default": 5}, {"default": 100}]}}}, False),
        ({"type": "nonsense"}, {}, {}, False),
        (EXPLOSIVE, {}, {}, False),
    ],
)
def test_fit(schema: Any, arguments: Any, declared: Any, fits: bool) -> None:
    assert fit_schema(schema, arguments, declared) is fits


def test_defaults_inside_lists_and_objects() -> None:
    line = {"type": "object", "properties": {"price": {"default": 3}, "more": {"default": {"x": 1}}}}
    declared = {"properties": {"lines": {"items": line}, "to": {"properties": {"city": {"default": "Ulm"}}}}}
    given = {"lines": [{}, {"price": 1}], "to": {}}
    assert with_defaults(given, declared) == {
        "lines": [{"price": 3, "more": {"x": 1}}, {"price": 1, "more": {"x": 1}}], "to": {"city": "Ulm"},
    }  # fmt: skip
    assert given == {"lines": [{}, {"price": 1}], "to": {}}, "the arguments stay as they are"


@pytest.mark.parametrize("levels", [2, 40])
def test_defaults_that_bring_defaults_are_counted(levels: int) -> None:
    """Two fields with defaults on each level: 2 ** levels defaults in a few bytes."""
    made = {
        f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}", "default": {}} for k in "ab"}} for n in range(levels)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**made, f"d{levels}": {}}}
    few = {"a": {"a": {}, "b": {}}, "b": {"a": {}, "b": {}}}
    assert with_defaults({}, schema) == (few if levels == 2 else None)
    assert with_defaults({}, {"properties": {"a": {"$ref": "#", "default": {}}}}) in (None, {"a": {}})
    endless = {"$ref": "#/$defs/d", "$defs": {"d": {"properties": {"a": {"$ref": "#/$defs/d", "default": {}}}}}}
    assert with_defaults({}, endless) is None
    assert fit_schema(SMALL, {}, endless) is False


@pytest.mark.parametrize(
    "schema", [{"type": 5}, {"$ref": "http://127.0.0.1:9/x"}, {"pattern": "(?=a)"}, {"$ref": "#/no"}, EXPLOSIVE]
)
def test_schemas_that_are_none_are_refused_and_nothing_is_fetched(schema: Any) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        check_schema(schema)
