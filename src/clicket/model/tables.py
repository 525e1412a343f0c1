"""Reads what a settings file says as typed values. A table is a struct: each key is a field with its type, default and meaning.

One reader checks them all. An error names the place, the key, what it must be and what it is; the value of a key that is marked
`SECRET` is never in it. What a type cannot say (a key that needs another one) is said by the struct's `__post_init__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from clicket.errors import UsageError, did_you_mean

__all__ = [
    "FINITE",
    "SECRET",
    "fields_of",
    "is_secret",
    "none_or",
    "plain_types",
    "read",
    "said",
    "secrets_in",
    "tables",
]

S = TypeVar("S", bound=msgspec.Struct)
SECRET = msgspec.Meta(extra={"secret": True})
"""Marks a key whose value is never shown: `client_secret: Annotated[str, SECRET] = ""`."""
FINITE = 1e15
"""More than any number in the settings: it keeps out what is not finite."""
_WORDS: dict[Any, tuple[str, str]] = {
    str: ("a text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "flags"),
    Any: ("a value", "values"),
}


def read(kind: Any, given: Any, where: str, *, name: str = "", lax: bool = False) -> Any:
    """`given` as a value of this type, or `UsageError`. `where` begins the message, `name` is the key.

    `false` stands for None where a number may be None: TOML has no null. With `lax` a number may be text.
    """
    inner, optional = none_or(kind)
    if optional and (given is None or (given is False and bool not in plain_types(inner))):
        return None
    table = next((each for each in plain_types(inner) if _is_table(each)), None)
    if table is not None and (isinstance(given, Mapping) or len(plain_types(inner)) == 1):
        return _table(table, given, f"{where}: {name}" if name else where)
    item = get_args(inner)[0] if get_origin(inner) in (tuple, Sequence) else None
    if item is not None and _is_table(item):
        return tables(item, given, f"{where}: {name}" if name else where)
    try:
        return msgspec.convert(given, kind, strict=not lax)
    except msgspec.ValidationError:
        raise UsageError(f"{where}: {_problem(kind, given, name)}") from None


def tables(kind: type[S], given: Any, where: str, key: Callable[[S], str] | None = None) -> tuple[S, ...]:
    """A list of tables. `key`: no two may have the same."""
    if not isinstance(given, list | tuple):
        raise UsageError(f"{where} must be a list of tables, not {_kind_of(given)}. In TOML, write [[…]] before each.")
    made = tuple(_table(kind, each, f"{where}, number {number}") for number, each in enumerate(given, start=1))
    found: set[str] = set()
    for name in () if key is None else map(key, made):
        if name in found:
            raise UsageError(f"{where}: two have the name {name!r}. Give each a name of its own.")
        found.add(name)
    return made


def said(kind: Any, *, many: bool = False) -> str:
    """The type in words: `a whole number above 0`."""
    inner, optional = none_or(kind)
    if optional and not many:
        return f"{said(inner)}, or false for no limit" if _is_number(inner) else said(inner)
    bounds = "".join(_bounds(each) for each in getattr(kind, "__metadata__", ()))
    inner = get_args(inner)[0] if get_origin(inner) is Annotated else inner
    origin, arguments = get_origin(inner), get_args(inner)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if _is_union(inner):
        return " or ".join(dict.fromkeys(said(each) for each in arguments))
    if origin in (tuple, list, frozenset) or (isinstance(origin, type) and issubclass(origin, Sequence | AbstractSet)):
        return f"a list of {said(arguments[0], many=True)}"
    if origin is dict or inner is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return "tables" if many else "a table"
    if _is_table(inner):
        return "tables" if many else f"a table with {', '.join(fields_of(inner))}"
    return _WORDS[inner][many] + bounds


def secrets_in(value: Any) -> Iterator[str]:
    """The texts of the keys that are marked `SECRET`, in a table or a sequence of them."""
    if isinstance(value, tuple):
        for each in value:
            yield from secrets_in(each)
    elif isinstance(value, msgspec.Struct):
        for field in fields_of(type(value)).values():
            held = getattr(value, field.name)
            if is_secret(field.type):
                yield from (each for each in ([held] if isinstance(held, str) else held or ()) if each)
            else:
                yield from secrets_in(held)


@cache
def fields_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The fields of a table by their keys."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def is_secret(kind: Any) -> bool:
    return any(each is SECRET for each in getattr(none_or(kind)[0], "__metadata__", getattr(kind, "__metadata__", ())))


def none_or(kind: Any) -> tuple[Any, bool]:
    """The type without None and unset, and whether it had one of them."""
    if not _is_union(kind):
        return kind, False
    left = tuple(each for each in get_args(kind) if each not in (NoneType, msgspec.UnsetType))
    return Union[left], NoneType in get_args(kind)  # noqa: UP007  # of a tuple


def _table(kind: type[S], given: Any, where: str) -> S:
    known = fields_of(kind)
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} must be a table with {', '.join(known)}, not {_kind_of(given)}.")
    for key in given:
        if key not in known:
            near = did_you_mean(str(key), known)
            raise UsageError(f"{where}: unknown key {key!r}.{near} Known: {', '.join(known)}.")
    for key, field in known.items():
        if field.required and key not in given:
            raise UsageError(f"{where}: it needs {key}: {said(field.type)}.")
    values = {known[key].name: read(known[key].type, each, where, name=key) for key, each in given.items()}
    try:
        return kind(**values)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}") from None


def _problem(kind: Any, given: Any, name: str) -> str:
    """What is wrong with a value; of a list of choices, the first one that is not known."""
    inner, _ = none_or(kind)
    item = get_args(inner)[0] if get_origin(inner) in (tuple, frozenset) else inner
    if get_origin(item) is Literal and (item is inner or isinstance(given, list | tuple)):
        choices = get_args(item)
        wrong = given if item is inner else next(each for each in given if each not in choices)
        near = did_you_mean(str(wrong), list(map(str, choices)))
        if item is inner:
            return f"{name or 'it'} must be {said(inner)}, not {wrong!r:.60}.{near}"
        return f"{name or 'it'} has no {wrong!r:.60}.{near} Known: {', '.join(map(str, choices))}."
    return f"{name or 'it'} must be {said(kind)}" + ("." if is_secret(kind) else f", not {given!r:.60}.")


def _bounds(meta: msgspec.Meta) -> str:
    most = None if meta.le is None or meta.le >= FINITE else meta.le
    least = f" above {meta.gt:g}" if meta.gt is not None else "" if meta.ge is None else f" from {meta.ge:g}"
    return least + ("" if most is None else f" to {most:g}" if meta.ge is not None else f", at most {most:g}")


def _kind_of(given: Any) -> str:
    """What was given instead of a table; its text may be a secret."""
    return next((said(kind) for kind in (bool, int, float, str) if type(given) is kind), f"a {type(given).__name__}")


def plain_types(kind: Any) -> tuple[Any, ...]:
    """The types of a union without None, or the one type, without their marks."""
    kind = none_or(kind)[0]
    found = get_args(kind) if _is_union(kind) else (kind,)
    return tuple(get_args(each)[0] if get_origin(each) is Annotated else each for each in found)


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _is_number(kind: Any) -> bool:
    return any(each in (int, float) for each in plain_types(kind)) and bool not in plain_types(kind)
