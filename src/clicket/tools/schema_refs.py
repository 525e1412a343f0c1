"""Schemas taken out of an OpenAPI document, standing alone: references become `#/$defs/…`, remote ones are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from clicket.errors import UsageError

__all__ = ["Document", "Schemas"]

_MAX_CHAIN = 50
_DROPPED = frozenset({"$anchor", "$id", "$schema", "discriminator", "example", "externalDocs", "nullable", "xml"})
_DATA = frozenset({"const", "default", "enum", "examples", "required", "dependentRequired"})
_MAPS = frozenset({"$defs", "dependentSchemas", "patternProperties", "properties"})


class Document:
    """A document that references are looked up in."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def resolved(self, node: Any) -> Mapping[str, Any]:
        """The object that `node` is or refers to."""
        for _ in range(_MAX_CHAIN):
            if not isinstance(node, Mapping):
                raise UsageError(f"OpenAPI: an object was expected, not {node!r:.100}.")
            if "$ref" not in node:
                return node
            node = self.at(node["$ref"])
        raise UsageError("OpenAPI: a $ref leads back to itself.")

    def at(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise UsageError(
                f"OpenAPI: the $ref {reference!r:.200} does not point into the document. "
                "Nothing is fetched; bundle it into one file."
            )
        node: Any = self.root
        for step in reference.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(key)] if isinstance(node, list) else node[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise UsageError(f"OpenAPI: the $ref {reference!r:.200} points to nothing.") from None
        return node


class Schemas:
    """Converts schemas to JSON Schema 2020-12 and gathers in `definitions` what they refer to."""

    def __init__(self, source: Document) -> None:
        self._source = source
        self._names: dict[str, str] = {}
        self.definitions: dict[str, Any] = {}

    def convert(self, schema: Any) -> dict[str, Any]:
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        return dict(self._converted(schema, 0))

    def _converted(self, schema: Any, depth: int) -> Any:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise UsageError(f"OpenAPI: a schema was expected, not {schema!r:.100}.")
        if depth > 200:
            raise UsageError("OpenAPI: a schema is nested too deeply.")
        result: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _DROPPED or key.startswith("x-"):
                continue
            if key == "$ref":
                result[key] = self._reference(value, depth)
            elif key in _DATA:
                result[key] = value
            elif key in _MAPS and isinstance(value, Mapping):
                result[key] = {name: self._converted(inner, depth + 1) for name, inner in value.items()}
            elif isinstance(value, Mapping):
                result[key] = self._converted(value, depth + 1)
            elif isinstance(value, list) and key != "type":
                result[key] = [self._converted(i, depth + 1) if isinstance(i, Mapping) else i for i in value]
            else:
                result[key] = value
        return _without_read_only(_modern(schema, result))

    def _reference(self, reference: Any, depth: int) -> str:
        target = self._source.at(reference)
        if reference not in self._names:
            stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", unquote(str(reference).rpartition("/")[2])) or "root"
            name = stem
            number = 1
            while name in self.definitions:
                number += 1
                name = f"{stem}_{number}"
            # The name is taken before the target is read: this is what makes circles end.
            self._names[reference] = name
            self.definitions[name] = {}
            self.definitions[name] = self._converted(target, depth + 1)
        return f"#/$defs/{self._names[reference]}"


def _modern(old: Mapping[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI 3.0 has its own `nullable` and boolean `exclusiveMinimum`; 2020-12 says the same in other words."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(new.get(exclusive), bool) and new.pop(exclusive) and limit in new:
            new[exclusive] = new.pop(limit)
    if old.get("nullable") is not True:
        return new
    if isinstance(new.get("type"), str) and not {"allOf", "anyOf", "oneOf", "$ref"} & new.keys():
        new["type"] = [new["type"], "null"]
        if isinstance(new.get("enum"), list) and None not in new["enum"]:
            new["enum"] = [*new["enum"], None]
        return new
    if {"type", "allOf", "anyOf", "oneOf", "$ref", "enum"} & new.keys():
        return {"anyOf": [new, {"type": "null"}]}
    return new


def _without_read_only(schema: dict[str, Any]) -> dict[str, Any]:
    """Fields that only responses carry are no part of a request."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    hidden = {name for name, field in properties.items() if isinstance(field, dict) and field.get("readOnly") is True}
    if hidden:
        schema["properties"] = {name: field for name, field in properties.items() if name not in hidden}
        if isinstance(schema.get("required"), list):
            schema["required"] = [name for name in schema["required"] if name not in hidden]
    return schema
