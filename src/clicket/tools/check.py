"""The compiled check of a JSON Schema. It reports all problems at once, each with its path. Remote references are never fetched.

The work is bounded twice: a schema with too many paths is refused when it is compiled, and a value is checked along a bounded number of
paths. jsonschema-rs gives the verdict where that is surely fast; where it may apply the same subschema to the same part of a value again
and again, `Judge` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import jsonschema_rs

from clicket.errors import MAX_PROBLEMS, UsageError
from clicket.model.codec import json_pointer
from clicket.tools.judge import PATTERNS, Judge, TooMuchWork
from clicket.tools.problems import problems_of
from clicket.tools.schema_graph import SchemaGraph, Unusable

__all__ = ["Check", "CompiledSchema", "bound_schema", "compile_schema"]

Check = Callable[[Any], list[dict[str, str]]]
"""An empty list means that the arguments fit."""

_SAYS_WHAT_ELSE = ("additionalProperties", "unevaluatedProperties")
_COMPOSED = ("patternProperties", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
_SOMEWHERE = "a value does not fit the schema. There are too many values to say which one: send fewer to find out"
_TOO_MUCH = (
    "to check it takes too long: it is nested too deeply or has too many values for a schema with this many alternatives, or has texts for "
    "which a pattern of the schema takes too many steps. Send fewer levels, fewer values, or shorter texts"
)
MAX_VISITS = 500_000
"""The most paths along which jsonschema-rs may have to check a value; it takes some 50 ns for each."""
MAX_STEPS = 10_000
"""The most steps of `Judge`, for a value that is not big; it takes some 3 µs for each."""
_MAX_EXPLAINED = 5_000
"""The most steps to find out what is wrong."""
_STEPS_EACH = 30
"""Steps for each member of a big value."""
_FEW_MEMBERS = 2_000
_FEW_PATHS = 16
"""A schema with no more paths is checked by jsonschema-rs, whatever the value is."""

_MAX_LEVELS = 1_000
_MAX_MEMBERS = 10_000_000


class CompiledSchema:
    """A schema as it is; `UsageError` if it cannot be used. `mask` replaces values in messages. `patterns`: how they are matched."""

    def __init__(
        self,
        schema: Mapping[str, Any],
        where: str,
        *,
        mask: str | None = None,
        patterns: jsonschema_rs.FancyRegexOptions | jsonschema_rs.RegexOptions = PATTERNS,
    ) -> None:
        loaded = dict(schema)
        self._mask = mask
        self._judge: Judge | None = None
        try:
            self.graph = SchemaGraph(loaded)
            self.is_valid = jsonschema_rs.Draft202012Validator(
                loaded, retriever=_refuse_remote, pattern_options=patterns
            ).is_valid
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            reason = getattr(error, "message", None) or str(error)
            raise UsageError(f"{where} cannot be used: {str(reason).splitlines()[0]}.") from None
        self.always_fast = self.graph.is_bounded and self.graph.by_level[-1] <= _FEW_PATHS and not self.graph.backtracks

    def fits(self, value: Any) -> bool:
        """Raises `TooMuchWork` if that cannot be said within the bounds. A big value has more steps: it is checked in a thread."""
        if self.always_fast:
            return self.is_valid(value)
        members, levels = _measured(value)
        rates = self.graph.by_level
        is_counted = levels <= len(rates) or self.graph.is_bounded
        if is_counted and not self.graph.backtracks and members * rates[min(levels, len(rates)) - 1] <= MAX_VISITS:
            return self.is_valid(value)
        return self._judged.fits(value, MAX_STEPS if members <= _FEW_MEMBERS else _STEPS_EACH * members)

    def problems(self, value: Any) -> list[dict[str, str]]:
        """What is wrong with a value; empty if it fits. One more than an error lists are given: they tell that there are more."""
        try:
            if self.fits(value):
                return []
        except TooMuchWork:
            return [{"path": "", "message": _TOO_MUCH}]
        listed: list[dict[str, str]] = []
        try:
            for path, text in islice(problems_of(value, self._judged, _MAX_EXPLAINED), MAX_PROBLEMS + 1):
                listed.append({"path": json_pointer(path), "message": _shorter(text)})
        except TooMuchWork:
            pass  # the first ones are enough
        return listed or [{"path": "", "message": _SOMEWHERE}]

    @property
    def _judged(self) -> Judge:
        if self._judge is None:
            self._judge = Judge(self.graph, self._mask)
        return self._judge


def compile_schema(schema: Mapping[str, Any], where: str, *, mask: str | None = None) -> Check:
    """A check for arguments; raises `UsageError` when the schema itself cannot be used. `mask` replaces values in messages."""
    if not isinstance(schema, Mapping):
        raise UsageError(f"{where}: its input schema must be a JSON object, not {type(schema).__name__}.")
    compiled = CompiledSchema(closed(schema), f"{where}: its input schema", mask=mask)
    if not compiled.always_fast:
        return compiled.problems
    is_valid, problems = compiled.is_valid, compiled.problems
    return lambda arguments: [] if is_valid(arguments) else problems(arguments)  # each call passes here


def bound_schema(schema: Mapping[str, Any], where: str) -> None:
    """`UsageError` if the schema can cause more work than is allowed, or refers to what is not there. It is not compiled."""
    try:
        SchemaGraph(dict(schema))
    except Unusable as error:
        raise UsageError(f"{where} cannot be used: {error}.") from None


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with unknown fields refused, unless it says itself what other fields are allowed."""
    if any(word in schema for word in _SAYS_WHAT_ELSE):
        return dict(schema)
    if any(word in schema for word in _COMPOSED):
        return {**schema, "unevaluatedProperties": False}
    if "properties" in schema:
        return {**schema, "additionalProperties": False}
    return dict(schema)


def _measured(value: Any) -> tuple[int, int]:
    """How many members a value has with all that they hold, and on how many levels."""
    level = [value]
    members = 0
    levels = 0
    while level and levels < _MAX_LEVELS and members < _MAX_MEMBERS:  # a value that holds itself has no end
        levels += 1
        members += len(level)
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list | tuple):
                below += item
        level = below
    return members, levels


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema, and remote references are never fetched")


def _shorter(message: str) -> str:
    return message if len(message) <= 300 else f"{message[:200]} … {message[-80:]}"
