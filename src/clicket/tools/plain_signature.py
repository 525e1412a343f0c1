"""Signatures of plain JSON types. pydantic leaves a value as it is that has exactly the type of its hint, so it need not be asked.

One rule keeps both ways equal: only exact matches are taken here. Everything else (a whole number for a `float`, `1.0` for an `int`,
a wrong type, an unknown or missing name) goes to pydantic, which converts or refuses it.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union

import msgspec
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from clicket.vault import MIN_TOKEN

__all__ = ["never_plain", "plain_binder", "scalar_binder"]

Bind = Callable[[dict[str, Any]], dict[str, Any]]
BindPlain = Callable[[dict[Any, Any]], dict[str, Any] | None]
_Fits = Callable[[Any], bool]

_FEW = 16
_BIG = 2**63
_SCALARS: frozenset[type] = frozenset({int, float, str, bool, NoneType})
_JSON: frozenset[type] = _SCALARS | {list, dict}
_TEXT = frozenset({str})
_NONE: frozenset[type] = frozenset()
_HARMLESS = ("default", "default_factory", "alias", "validation_alias", "discriminator")
"""Attributes of a `Field(…)` that change how a value is bound; its other ones only describe it."""


class _Plain(msgspec.Struct, frozen=True):
    """A plain hint: the types that its values may have exactly, and, where these do not tell it all, a test of the value."""

    types: frozenset[type]
    fits: _Fits | None = None
    vague: bool = False
    """Takes anything somewhere. In a union pydantic prefers what it can convert to such an alternative."""


def plain_binder(hints: Mapping[str, Any], required: frozenset[str], convert: Bind) -> Bind | None:
    """A `bind` for parameters with these hints, which calls `convert` for what is not an exact match; None: not all are plain."""
    plain = {name: _plain(hint) for name, hint in hints.items()}
    types = {name: each.types for name, each in plain.items() if each is not None}
    if len(types) < len(hints):
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


def scalar_binder(hints: Mapping[str, Any], required: frozenset[str]) -> BindPlain:
    """A `bind_plain` for parameters with these hints: the arguments, if they are a few scalars of exactly the right types that are
    plain JSON, fit the schema and are too short to hold a secret; None: they must be judged."""
    plain = {name: _plain(hint) for name, hint in hints.items()}
    types = {name: each.types & _SCALARS for name, each in plain.items() if each is not None and each.fits is None}
    if len(types) < len(hints) or len(hints) > _FEW or any(each is None or each.vague for each in plain.values()):
        return never_plain
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


def never_plain(arguments: dict[Any, Any]) -> None:
    """For tools whose arguments must always be judged."""


def _plain(hint: Any) -> _Plain | None:
    """None: pydantic may convert or judge a value of this hint."""
    if hint is None:
        return _Plain(frozenset({NoneType}))
    if isinstance(hint, type) and (scalar := _SCALARS & {hint}):
        return _Plain(scalar)
    if hint is Any:
        return _Plain(_JSON, vague=True)
    if hint is list:
        return _Plain(frozenset({list}), vague=True)
    if hint is dict:
        return _Plain(frozenset({dict}), vague=True)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _plain(parts[0]) if all(map(_only_describes, parts[1:])) else None
    if origin is Literal:
        return _literal(parts)
    if origin is Union or origin is UnionType:
        return _union([_plain(part) for part in parts])
    if origin is list:
        return _list(_plain(parts[0]))
    if origin is dict:
        return _dict(_plain(parts[1])) if parts[0] is str else None
    return None


def _only_describes(metadata: Any) -> bool:
    if isinstance(metadata, FieldInfo):
        values = (getattr(metadata, name, None) for name in _HARMLESS)
        return not metadata.metadata and all(value is None or value is PydanticUndefined for value in values)
    return isinstance(metadata, str)


def _literal(values: tuple[Any, ...]) -> _Plain | None:
    types = frozenset(map(type, values))
    if not types <= _SCALARS:
        return None
    typed = frozenset((type(value), value) for value in values)
    return _Plain(types, lambda value: (type(value), value) in typed)


def _union(parts: list[_Plain | None]) -> _Plain | None:
    known = [part for part in parts if part is not None and not part.vague]
    if len(known) < len(parts):
        return None
    types: frozenset[type] = frozenset().union(*(part.types for part in known))
    if all(part.fits is None for part in known):
        return _Plain(types)
    return _Plain(types, lambda value: any(_matches(part, value) for part in known))


def _matches(part: _Plain, value: Any) -> bool:
    return type(value) in part.types and (part.fits is None or part.fits(value))


def _list(item: _Plain | None) -> _Plain | None:
    if item is None:
        return None
    types, fits = item.types, item.fits

    def every(value: list[Any]) -> bool:
        return types.issuperset(map(type, value)) and (fits is None or all(map(fits, value)))

    return _Plain(frozenset({list}), every, item.vague)


def _dict(item: _Plain | None) -> _Plain | None:
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

    return _Plain(frozenset({dict}), every, item.vague)
