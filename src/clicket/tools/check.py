"""The compiled check of a JSON Schema. It reports all problems at once, each with its path. Remote references are never fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema_rs

from clicket.errors import UsageError, did_you_mean
from clicket.model.codec import json_pointer

__all__ = ["Check", "compile_schema"]

Check = Callable[[Any], list[dict[str, str]]]
"""An empty list means that the arguments fit."""

_SAYS_WHAT_ELSE = ("additionalProperties", "unevaluatedProperties")
_COMPOSED = ("patternProperties", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
_Path = list[str | int]


def compile_schema(schema: Mapping[str, Any], where: str, *, mask: str | None = None) -> Check:
    """A check for arguments; raises `UsageError` when the schema itself cannot be used. `mask` replaces values in messages."""
    if not isinstance(schema, Mapping):
        raise UsageError(f"{where}: its input schema must be a JSON object, not {type(schema).__name__}.")
    try:
        validator = jsonschema_rs.Draft202012Validator(closed(schema), retriever=_refuse_remote, mask=mask)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        reason = getattr(error, "message", None) or str(error)
        raise UsageError(f"{where}: its input schema cannot be used: {str(reason).splitlines()[0]}") from None
    is_valid, iter_errors = validator.is_valid, validator.iter_errors
    known = list(schema.get("properties", ()))

    def check(arguments: Any) -> list[dict[str, str]]:
        if is_valid(arguments):
            return []
        return [
            {"path": json_pointer(path), "message": message}
            for error in iter_errors(arguments)
            for path, message in _complaints(error, known)
        ]

    return check


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with unknown fields refused, unless it says itself what other fields are allowed."""
    if any(word in schema for word in _SAYS_WHAT_ELSE):
        return dict(schema)
    if any(word in schema for word in _COMPOSED):
        return {**schema, "unevaluatedProperties": False}
    if "properties" in schema:
        return {**schema, "additionalProperties": False}
    return dict(schema)


def _complaints(error: Any, known: list[str]) -> Iterator[tuple[_Path, str]]:
    path: _Path = error.instance_path
    kind = error.kind
    if kind.name == "required":
        yield [*path, kind.property], "it is required"
    elif kind.name in _SAYS_WHAT_ELSE:
        for name in kind.unexpected:
            yield [*path, name], f"there is no such field.{did_you_mean(name, known) if not path else ''}"
    elif kind.name in ("anyOf", "oneOf") and (branch := _nearest(getattr(kind, "context", ()))):
        for inner in branch:
            yield from _complaints(inner, known)
    else:
        yield path, _shorter(error.message)


def _nearest(branches: Any) -> list[Any]:
    """The problems of the alternative that the value came closest to; "it is not null" alone is never reported."""
    real = [branch for branch in branches if not all(e.kind.name == "type" and '"null"' in e.message for e in branch)]
    if len(real) == 1:
        return list(real[0])
    deep = [branch for branch in real if all(len(e.instance_path) > len(branch[0].instance_path[:1]) for e in branch)]
    return list(deep[0]) if len(deep) == 1 else []


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema, and remote references are never fetched")


def _shorter(message: str) -> str:
    return message if len(message) <= 300 else f"{message[:200]} … {message[-80:]}"
