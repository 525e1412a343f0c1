"""The schema of an answer in the subset of JSON Schema to which a vendor can bind its model. The answer is checked against the whole one.

A limit that the vendor does not know, such as `minLength`, becomes a part of the description: the model reads it, and the check finds what
does not fit. A schema with other parts that the vendor does not know is not sent in this way.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

import msgspec

from clicket.tools.provider_schema import nullable
from clicket.tools.schema_graph import may_backtrack

__all__ = ["answer_schema"]

_SILENT = frozenset("$schema $comment $id discriminator examples example default deprecated readOnly writeOnly".split())
"""Keywords that the model can do without."""
_LIMITS = frozenset(
    "minLength maxLength pattern format multipleOf maximum exclusiveMaximum minimum exclusiveMinimum minItems maxItems uniqueItems "
    "minProperties maxProperties contentEncoding contentMediaType".split()
)
_OF_OBJECTS = frozenset(("properties", "required", "additionalProperties"))
_ALTERNATIVES = frozenset(("anyOf", "oneOf", "allOf"))
_KINDS = frozenset(("type", "enum", "const", "$ref", "anyOf"))
_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())
_HERE = "#/$defs/"
_Provider = Literal["openai", "anthropic"]


class _Rules(msgspec.Struct, frozen=True):
    """What one vendor's documentation allows."""

    limits: frozenset[str]
    formats: frozenset[str]
    all_required: bool
    """Each field is required: one that may be left out may be null instead."""
    object_root: bool
    circles: bool
    """A definition may hold itself."""
    max_fields: int = 5_000
    max_optional: int = 5_000
    max_unions: int = 5_000
    max_values: int = 1_000
    """Of all `enum` together."""


_RULES: Mapping[_Provider, _Rules] = {
    "openai": _Rules(
        limits=frozenset(
            "pattern format multipleOf maximum exclusiveMaximum minimum exclusiveMinimum minItems maxItems".split()
        ),
        formats=_FORMATS,
        all_required=True,
        object_root=True,
        circles=True,
    ),
    "anthropic": _Rules(
        limits=frozenset(("format",)),
        formats=_FORMATS | {"uri"},
        all_required=False,
        object_root=False,
        circles=False,
        max_optional=24,
        max_unions=16,
    ),
}


def answer_schema(schema: Mapping[str, Any], provider: _Provider) -> dict[str, Any] | None:
    """None: the vendor cannot bind its model to the schema."""
    writer = _Writer(schema, _RULES[provider])
    try:
        made = writer.written(schema, "#")
        writer.check_whole(made)
    except (_CannotSay, RecursionError):
        return None
    return made


class _CannotSay(Exception):
    """The vendor's subset has no words for it."""


class _Writer:
    def __init__(self, root: Mapping[str, Any], rules: _Rules) -> None:
        self._root = root
        self._rules = rules
        self._refers: dict[str, set[str]] = {}
        self._fields = self._optional = self._unions = self._values = 0

    def written(self, schema: Any, place: str) -> dict[str, Any]:
        """`place`: the definition that the schema is a part of."""
        if not isinstance(schema, Mapping):
            raise _CannotSay
        made: dict[str, Any] = {}
        limits: list[str] = []
        for word, value in schema.items():
            if word in _SILENT or word in _OF_OBJECTS:
                continue
            if word in _LIMITS and not self._takes(word, value):
                limits.append(f"{word}: {_text(value)}")
            elif word in _ALTERNATIVES:
                if "anyOf" in made:
                    raise _CannotSay
                made["anyOf"] = self._alternatives(word, value, place)
            else:
                made[word] = self._keyword(word, value, place)
        if schema.get("type") == "object" or "properties" in schema:
            self._write_object(made, schema, place)
        if limits:
            text = f"({', '.join(limits)})"
            made["description"] = f"{made['description']} {text}" if made.get("description") else text
        return _alone(made, schema)

    def _keyword(self, word: str, value: Any, place: str) -> Any:
        if word == "items":
            return self.written(value, place)
        if word == "$defs" and isinstance(value, Mapping):
            return {name: self.written(each, name) for name, each in value.items()}
        if word == "$ref" and isinstance(value, str) and (value == "#" or value.startswith(_HERE)):
            self._refers.setdefault(place, set()).add(value.removeprefix(_HERE))
        elif word == "enum" and isinstance(value, list | tuple):
            if any(isinstance(each, dict | list) for each in value):
                raise _CannotSay
            self._values += len(value)
        elif word == "type":
            self._unions += isinstance(value, list)
        elif word not in ("title", "description", "const") and word not in _LIMITS:
            raise _CannotSay
        return value

    def _alternatives(self, word: str, value: Any, place: str) -> list[Any]:
        """`oneOf` becomes `anyOf`: that a value fits only one alternative is left to the check."""
        if not isinstance(value, list | tuple) or not value or (word == "allOf" and len(value) > 1):
            raise _CannotSay
        self._unions += len(value) > 1
        return [self.written(each, place) for each in value]

    def check_whole(self, made: Mapping[str, Any]) -> None:
        rules = self._rules
        if rules.object_root and made.get("type") != "object":
            raise _CannotSay
        if self._fields > rules.max_fields or self._optional > rules.max_optional:
            raise _CannotSay
        if self._unions > rules.max_unions or self._values > rules.max_values:
            raise _CannotSay
        if not rules.circles and self._has_circle():
            raise _CannotSay

    def _write_object(self, made: dict[str, Any], schema: Mapping[str, Any], place: str) -> None:
        fields = schema.get("properties")
        # Not closed means that other fields are allowed, not that they are wanted.
        if not isinstance(fields, Mapping) or schema.get("additionalProperties", False) is not False:
            raise _CannotSay
        required = [name for name in schema.get("required", ()) if name in fields]
        optional = fields.keys() - set(required)
        self._fields += len(fields)
        self._optional += len(optional)
        properties = {name: self.written(field, place) for name, field in fields.items()}
        if self._rules.all_required:
            properties = {
                name: nullable(field, fields[name], self._root) if name in optional else field
                for name, field in properties.items()
            }
            required = list(properties)
        made["type"] = "object"
        made["properties"] = properties
        if required or self._rules.all_required:
            made["required"] = required
        made["additionalProperties"] = False

    def _takes(self, word: str, value: Any) -> bool:
        if word not in self._rules.limits:
            return False
        if word == "format":
            return value in self._rules.formats
        return word != "pattern" or not may_backtrack(str(value))

    def _has_circle(self) -> bool:
        try:
            TopologicalSorter(self._refers).prepare()
        except CycleError:
            return True
        return False


def _alone(made: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """A reference has no other keywords beside it; what has no type is not bound at all."""
    if not made.keys() & _KINDS:
        raise _CannotSay
    kinds = made.get("type")
    if "items" not in made and "array" in (kinds if isinstance(kinds, list) else [kinds]):
        raise _CannotSay
    if "$ref" not in made or len(made) == 1:
        return made
    reference = {"$ref": made.pop("$ref")}
    if made.keys() - {"title", "description", "$defs"}:
        raise _CannotSay
    return {**made, "anyOf": [reference]}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
