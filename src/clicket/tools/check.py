"""The compiled check of a JSON Schema. It reports all problems at once, each with its path. Remote references are never fetched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import jsonschema_rs

from clicket.errors import MAX_PROBLEMS, UsageError, did_you_mean
from clicket.model.codec import is_small, json_pointer

__all__ = ["Check", "compile_schema"]

Check = Callable[[Any], list[dict[str, str]]]
"""An empty list means that the arguments fit."""

_SAYS_WHAT_ELSE = ("additionalProperties", "unevaluatedProperties")
_COMPOSED = ("patternProperties", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
_Path = list[str | int]
_SOMEWHERE = "a value does not fit the schema. There are too many values to say which one: send fewer to find out"
_MAX_NODES = 4_000
_COUNTING = frozenset(
    "contains dependentRequired maxContains minContains maxItems maxProperties minItems minProperties required".split()
)
"""What the beginning of an array or an object says nothing about."""


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
        # The validator makes all errors before it gives the first, so of big arguments only the beginning is looked at. One more
        # than an error lists are given: they tell that there are more. Each may name a near miss, which takes time.
        beginning = _Beginning(arguments)
        errors = (error for error in iter_errors(beginning.value) if beginning.tells(error))
        found = ((path, message) for error in errors for path, message in _complaints(error, known))
        listed = [{"path": json_pointer(path), "message": text} for path, text in islice(found, MAX_PROBLEMS + 1)]
        return listed or [{"path": "", "message": _SOMEWHERE}]

    return check


class _Beginning:
    """Arguments as far as `_MAX_NODES` values reach. Arrays and objects are cut, texts are not."""

    def __init__(self, arguments: Any) -> None:
        self._left = _MAX_NODES
        self._cut: set[tuple[str | int, ...]] = set()
        self.value = arguments if is_small(arguments, _MAX_NODES, sys.maxsize) else self._of(arguments, ())

    def _of(self, value: Any, path: tuple[str | int, ...]) -> Any:
        self._left -= 1
        if type(value) is not dict and type(value) is not list:
            return value
        keys = value if type(value) is dict else range(len(value))
        copied = {}
        for key in keys:
            if self._left <= 0:
                self._cut.add(path)
                break
            copied[key] = self._of(value[key], (*path, key))
        return copied if type(value) is dict else list(copied.values())

    def tells(self, error: Any) -> bool:
        """Is it an error of the whole arguments, too?"""
        return not self._cut or error.kind.name not in _COUNTING or tuple(error.instance_path) not in self._cut


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
