"""Signatures of plain JSON types: their schema and their binding, without pydantic.

pydantic takes longer to import than the rest of a runtime, and it leaves a value as it is if the value has exactly the hinted type.
So it is imported only when it is needed: for other hints, and for arguments that are not exact matches (a whole number for a
`float`, `1.0` for an `int`, a wrong type, an unknown or missing name), which it converts or refuses. Schemas are the ones that
pydantic would write; `tests/unit/tools/test_plain_signature.py` compares both ways.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union

import msgspec

from clicket.safety.vault import MIN_TOKEN

__all__ = ["PlainHint", "always_judged", "plain_binder", "plain_hint", "plain_schema", "scalar_binder"]

Bind = Callable[[dict[str, Any]], dict[str, Any]]
BindPlain = Callable[[dict[Any, Any]], dict[str, Any] | None]
_Fits = Callable[[Any], bool]

_FEW = 16
_BIG = 2**63
_SCALARS: frozenset[type] = frozenset({int, float, str, bool, NoneType})
_JSON: frozenset[type] = _SCALARS | {list, dict}
_TEXT = frozenset({str})
_NONE: frozenset[type] = frozenset()
_TYPE_NAMES: dict[Any, str] = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null"}
_BINDING_ATTRIBUTES = ("default", "default_factory", "alias", "validation_alias", "discriminator")
"""Attributes of a `Field(…)` that change how a value is bound; its other ones only describe it."""


class PlainHint(msgspec.Struct, frozen=True):
    """A plain hint: the types that its values may have exactly, and, where these do not decide it, a test of the value."""

    types: frozenset[type]
    schema: dict[str, Any] | None
    """None: pydantic must write it."""
    fits: _Fits | None = None
    vague: bool = False
    """Takes anything somewhere. In a union pydantic prefers what it can convert to such an alternative."""


def plain_schema(
    parameters: Mapping[str, inspect.Parameter], plain: Mapping[str, PlainHint | None], texts: Mapping[str, str]
) -> dict[str, Any] | None:
    """The schema of these parameters, `texts` their descriptions; None: pydantic must write it."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in parameters.items():
        hint = plain[name]
        if hint is None or hint.schema is None:
            return None
        given = dict(hint.schema)
        if parameter.default is parameter.empty:
            required.append(name)
        elif _is_plain_default(parameter.default, hint):
            given["default"] = parameter.default
        else:
            return None
        if name in texts:
            given["description"] = texts[name]
        properties[name] = _sorted(given)
    schema = {"additionalProperties": False, "properties": properties, "required": required, "type": "object"}
    if not required:
        del schema["required"]
    return schema


def _is_plain_default(value: Any, hint: PlainHint) -> bool:
    """Would pydantic write this default into the schema as it is?"""
    kind = type(value)
    if kind is float:
        return kind in hint.types and isfinite(value)
    if kind is str:
        return kind in hint.types and value.isascii()
    return value is None or (kind in _SCALARS and kind in hint.types)


def _sorted(schema: dict[str, Any]) -> dict[str, Any]:
    """pydantic writes keywords in alphabetical order."""
    return dict(sorted(schema.items()))


def plain_binder(plain: Mapping[str, PlainHint | None], required: frozenset[str], convert: Bind) -> Bind | None:
    """A `bind` for parameters with these hints, which calls `convert` for what is not an exact match; None: not all are plain."""
    types = {name: each.types for name, each in plain.items() if each is not None}
    if len(types) < len(plain):
        return None
    inside = {name: each.fits for name, each in plain.items() if each is not None and each.fits is not None}
    count = len(types)

    def bind(arguments: dict[str, Any]) -> dict[str, Any]:
        for name, value in arguments.items():
            if type(value) not in types.get(name, _NONE):
                return convert(arguments)
            if name in inside and not inside[name](value):
                return convert(arguments)
        if len(arguments) != count and not required <= arguments.keys():
            return convert(arguments)
        return dict(arguments)

    if inside:
        return bind

    def bind_scalars(arguments: dict[str, Any]) -> dict[str, Any]:
        for name, value in arguments.items():
            if type(value) not in types.get(name, _NONE):
                return convert(arguments)
        if len(arguments) != count and not required <= arguments.keys():
            return convert(arguments)
        return dict(arguments)

    return bind_scalars


def scalar_binder(plain: Mapping[str, PlainHint | None], required: frozenset[str]) -> BindPlain:
    """A `bind_plain` for parameters with these hints: the arguments, if they are a few scalars of exactly the right types that are
    plain JSON, fit the schema and are too short to hold a secret; None: they must be judged."""
    types = {name: each.types & _SCALARS for name, each in plain.items() if each is not None and each.fits is None}
    if len(types) < len(plain) or len(plain) > _FEW or any(each is None or each.vague for each in plain.values()):
        return always_judged
    count = len(types)

    def bind_plain(arguments: dict[Any, Any]) -> dict[str, Any] | None:
        for name, value in arguments.items():
            kind = type(value)
            if kind not in types.get(name, _NONE):
                return None
            if kind is str:
                if len(value) >= MIN_TOKEN or not value.isascii() or "\x00" in value:
                    return None
            elif kind is int:
                if not -_BIG < value < _BIG:
                    return None
            elif kind is float and not isfinite(value):
                return None
        if len(arguments) != count and not required <= arguments.keys():
            return None
        return arguments.copy()

    return bind_plain


def always_judged(arguments: dict[Any, Any]) -> None:
    """A `bind_plain` for tools whose arguments must always be judged."""


def plain_hint(hint: Any) -> PlainHint | None:
    """None: pydantic may convert or judge a value of this hint."""
    if hint is None:
        hint = NoneType
    if isinstance(hint, type) and (scalar := _SCALARS & {hint}):
        return PlainHint(scalar, {"type": _TYPE_NAMES[hint]})
    if hint is Any:
        return PlainHint(_JSON, {}, vague=True)
    if hint is list:
        return PlainHint(frozenset({list}), {"items": {}, "type": "array"}, vague=True)
    if hint is dict:
        return PlainHint(frozenset({dict}), {"additionalProperties": True, "type": "object"}, vague=True)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _annotated(plain_hint(parts[0]), parts[1:])
    if origin is Literal:
        return _literal(parts)
    if origin is Union or origin is UnionType:
        return _union([plain_hint(part) for part in parts])
    if origin is list:
        return _list(plain_hint(parts[0]))
    if origin is dict:
        return _dict(plain_hint(parts[1])) if parts[0] is str else None
    return None


def _annotated(hint: PlainHint | None, metadata: tuple[Any, ...]) -> PlainHint | None:
    if hint is None:
        return None
    # An annotated None keeps its place in a union: pydantic writes that schema.
    if all(isinstance(each, str) for each in metadata) and hint.schema != {"type": "null"}:
        return hint
    return msgspec.structs.replace(hint, schema=None) if all(map(_only_describes, metadata)) else None


def _only_describes(metadata: Any) -> bool:
    if isinstance(metadata, str):
        return True
    from pydantic.fields import FieldInfo
    from pydantic_core import PydanticUndefined

    if not isinstance(metadata, FieldInfo):
        return False
    values = (getattr(metadata, name, None) for name in _BINDING_ATTRIBUTES)
    return not metadata.metadata and all(value is None or value is PydanticUndefined for value in values)


def _literal(values: tuple[Any, ...]) -> PlainHint | None:
    types = frozenset(map(type, values))
    if not types <= _SCALARS:
        return None
    typed = frozenset((type(value), value) for value in values)
    schema: dict[str, Any] = {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
    if len(types) == 1:
        schema["type"] = _TYPE_NAMES[next(iter(types))]
    return PlainHint(types, schema, lambda value: (type(value), value) in typed)


def _union(parts: list[PlainHint | None]) -> PlainHint | None:
    known = [part for part in parts if part is not None and not part.vague]
    if len(known) < len(parts):
        return None
    types: frozenset[type] = frozenset().union(*(part.types for part in known))
    schemas = [part.schema for part in known if part.schema is not None and "anyOf" not in part.schema]
    schemas.sort(key=lambda schema: schema == {"type": "null"})  # pydantic names null last
    alike = any(one == other for at, one in enumerate(schemas) for other in schemas[:at])
    schema = {"anyOf": schemas} if len(schemas) == len(known) and not alike else None
    if all(part.fits is None for part in known):
        return PlainHint(types, schema)
    return PlainHint(types, schema, lambda value: any(_matches(part, value) for part in known))


def _matches(part: PlainHint, value: Any) -> bool:
    return type(value) in part.types and (part.fits is None or part.fits(value))


def _list(item: PlainHint | None) -> PlainHint | None:
    if item is None:
        return None
    types, fits = item.types, item.fits

    def every(value: list[Any]) -> bool:
        return types.issuperset(map(type, value)) and (fits is None or all(map(fits, value)))

    schema = None if item.schema is None else {"items": _sorted(item.schema), "type": "array"}
    return PlainHint(frozenset({list}), schema, every, item.vague)


def _dict(item: PlainHint | None) -> PlainHint | None:
    if item is None:
        return None
    types, fits = item.types, item.fits

    def every(value: dict[Any, Any]) -> bool:
        members = value.values()
        return (
            _TEXT.issuperset(map(type, value))
            and types.issuperset(map(type, members))
            and (fits is None or all(map(fits, members)))
        )

    schema = None if item.schema is None else {"additionalProperties": item.schema or True, "type": "object"}
    return PlainHint(frozenset({dict}), schema, every, item.vague)
