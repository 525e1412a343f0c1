"""Arguments as a model wrote them, normalised. Nothing ambiguous is guessed.

Missing arguments, an empty text and null all mean no arguments. Arguments that were encoded twice are decoded once. A null for a
field that is optional and may not be null is removed, because strict modes write it so. The runtime checks everything else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from clicket.tools.provider_schema import allows_null

__all__ = ["tidy", "without_nulls"]

_MAX_CHAIN = 8
_MAX_STEPS = 20_000
"""Members, and alternatives of unions, that are looked at for nulls."""


class _TwiceGiven(ValueError):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _TwiceGiven
    return made


def _parse(text: Any) -> Any:
    """The value of a JSON text. A text that is not JSON, or has a key twice, is returned as it is, for the runtime to refuse."""
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, TypeError, RecursionError):
        return text


def tidy(given: Any, schema: Mapping[str, Any] | None) -> Any:
    """The arguments to call the tool with. What cannot be made a mapping is returned as it is, for the runtime to refuse.

    A JSON text of an object becomes that object, so that a streamed call equals the same call in the whole message.
    """
    if given is None or (isinstance(given, str | bytes) and given.strip() in ("", "null", b"", b"null")):
        return {}
    value = _parse(given) if isinstance(given, str | bytes) else given
    if isinstance(value, str) and value != given and isinstance(inner := _parse(value), Mapping):
        value = inner
    if not isinstance(value, Mapping):
        return given
    return value if schema is None else without_nulls(value, schema)


def without_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value without the nulls of fields that are optional and may not be null, on all levels. The same object if it has none, or is
    too big to look through."""
    try:
        return _Nulls(schema).left_out(value, schema)
    except (RecursionError, _TooMuch):
        return value


class _TooMuch(Exception):
    pass


class _Nulls:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._steps = _MAX_STEPS

    def left_out(self, value: Any, schema: Any) -> Any:
        if not isinstance(value, Mapping | list):
            return value
        self._step(len(value))
        schema = self._described(value, schema)
        if isinstance(value, list):
            items = [self.left_out(item, schema.get("items")) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        fields, required = schema.get("properties", {}), schema.get("required", ())
        made = {
            name: self.left_out(item, fields.get(name))
            for name, item in value.items()
            if item is not None or name not in fields or name in required or allows_null(fields[name], self._root)
        }
        same = len(made) == len(value) and all(made[name] is item for name, item in value.items())
        return value if same else made

    def _described(self, value: Any, schema: Any) -> Mapping[str, Any]:
        """The subschema that describes the members of the value; of a union the first alternative that has them all."""
        own = self._target(schema)
        alternatives = own.get("anyOf") or own.get("oneOf")
        if not alternatives or "properties" in own or "items" in own:
            return own
        self._step(len(alternatives))
        return next((each for each in map(self._target, alternatives) if _has_members(value, each)), {})

    def _target(self, schema: Any) -> Mapping[str, Any]:
        found: Any = schema
        for _ in range(_MAX_CHAIN):
            reference = found.get("$ref") if isinstance(found, Mapping) else None
            if not isinstance(reference, str):
                break
            named = self._root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
            found = self._root if reference == "#" else named
        return found if isinstance(found, Mapping) else {}

    def _step(self, count: int) -> None:
        self._steps -= 1 + count
        if self._steps < 0:
            raise _TooMuch


def _has_members(value: Mapping[str, Any] | list[Any], schema: Mapping[str, Any]) -> bool:
    if isinstance(value, list):
        return "items" in schema
    fields = schema.get("properties", {})
    return bool(fields) and all(name in fields and _may_be(item, fields[name]) for name, item in value.items())


def _may_be(item: Any, field: Any) -> bool:
    """False: the field names its values, as the tags of a union do, and this is not one of them."""
    if not isinstance(field, Mapping) or not isinstance(item, str):
        return True
    named = [field["const"]] if "const" in field else field.get("enum")
    return named is None or item in named
