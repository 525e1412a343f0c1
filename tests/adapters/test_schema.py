"""Schemas that providers accept, and imports that happen only when they are needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE

from clicket.tools.provider_schema import allows_null, shown, strict

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def test_shown_is_a_plain_object() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "anyOf": [{"properties": {"a": {"type": "string"}}}, {"$ref": "#/$defs/b"}],
        "properties": {"c": {"type": "null"}},
        "$defs": {"b": {"properties": {"b": {"type": "integer"}}, "$ref": "#/$defs/b"}},
    }
    made = shown(schema)
    assert made["type"] == "object"
    assert set(made["properties"]) == {"a", "b", "c"}
    assert not {"anyOf", "$schema", "$ref"} & set(made)
    assert shown({}) == {"type": "object", "properties": {}}
    assert shown(OBJECT) == OBJECT


def test_strict_for_openai() -> None:
    optional = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "string", "default": "x", "description": "text"},
            "c": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "d": {"$ref": "#/$defs/d"},
        },
        "required": ["a"],
        "$defs": {"d": OBJECT},
    }
    made = strict(optional, "openai")
    assert made is not None
    assert made["required"] == ["a", "b", "c", "d"]
    assert made["additionalProperties"] is False
    assert made["properties"]["b"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "text"}
    assert made["properties"]["c"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert made["properties"]["d"] == {"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}]}
    assert "default" in optional["properties"]["b"], "the tool's own schema is unchanged"


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": False},  # x is optional
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "array"},
        {"type": "string", "minLength": 3},
        {"not": {"type": "string"}},
        {},
        True,
    ],
)
def test_what_strict_mode_cannot_say(field: Any) -> None:
    assert strict({"type": "object", "properties": {"f": field}, "required": ["f"]}, "openai") is None


def test_strict_leaves_other_tops_alone() -> None:
    assert strict({"anyOf": [OBJECT]}, "openai") is None
    assert strict({**OBJECT, "additionalProperties": True}, "openai") is None
    assert strict({**OBJECT, "additionalProperties": True}, "anthropic") is None
    made = strict({"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}, "anthropic")
    assert made is not None
    assert "required" not in made, "this vendor allows optional fields"


@pytest.mark.parametrize(
    ("field", "answer"),
    [
        ({"type": "integer"}, False),
        ({"type": ["integer", "null"]}, True),
        ({"type": "null"}, True),
        ({"enum": [1, 2]}, False),
        ({"enum": [1, None]}, True),
        ({"const": 1}, False),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, True),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, False),
        ({"allOf": [{"type": "integer"}, {}]}, False),
        ({"$ref": "#/$defs/n"}, False),
        ({"$ref": "#/elsewhere"}, True),
        ({"$ref": "#/$defs/loop"}, True),
        ({"not": {"type": "null"}}, True),
        ({}, True),
        (True, True),
        (False, False),
    ],
)
def test_can_it_be_null(field: Any, answer: bool) -> None:
    root = {"$defs": {"n": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}}}
    assert allows_null(field, root) is answer


def in_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.stdout + done.stderr


def test_the_vendors_sdks_are_not_needed() -> None:
    """Plain dictionaries work, for example in front of a provider's own gateway."""
    code = """
import sys
sys.modules["anthropic"] = sys.modules["openai"] = None
import clicket.adapters.anthropic, clicket.adapters.openai
print("fine")
"""
    assert in_python(code) == "fine\n"


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("langchain", "langchain_core", "langchain"), ("pydantic_ai", "pydantic_ai", "pydantic-ai")],
)
def test_a_missing_package_is_named_with_its_extra(module: str, package: str, extra: str) -> None:
    code = f"""
import sys
sys.modules["{package}"] = None
from clicket.errors import UsageError
try:
    import clicket.adapters.{module}
except UsageError as error:
    print(error)
"""
    assert f"pip install 'clicket[{extra}]'" in in_python(code)
