"""Short text for any object, made without running code of the program: no `__repr__`, `__len__`, property or `__class__` of its
own. An object of an unknown type is shown as the name of its class."""

from __future__ import annotations

import sys

from clicket.interpreter.inside.safe_builtins import BUILTINS, clean

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["BRACKETS", "PLAIN_TYPES", "belongs", "name_of", "short"]

globals()["__builtins__"] = BUILTINS

MAX_TEXT = 200
_MAX_ITEMS = 12
_MAX_DEPTH = 3
_MAX_BITS = 512
_IMMUTABLE, _HEAP = 1 << 8, 1 << 9  # flags of types; a class statement makes mutable heap types

# Through the slots of `type` itself, which a metaclass of the program cannot override. For the same reason types are compared
# with `is` and `issubclass`, and looked up in a dict only if their own type is `type`.
_name_of: Callable[[Any], str] = vars(type)["__name__"].__get__
_qualname_of: Callable[[Any], str] = vars(type)["__qualname__"].__get__
_module_of: Callable[[Any], Any] = vars(type)["__module__"].__get__
_flags_of: Callable[[Any], int] = vars(type)["__flags__"].__get__

_FUNCTION = type(clean)
_BUILTIN = type(len)
PLAIN_TYPES = (int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
_STDLIB = {"datetime": ("datetime", "date", "time", "timedelta"), "decimal": ("Decimal",)}


def name_of(kind: Any) -> str:
    return clean(_name_of(kind))[:MAX_TEXT]


def path_of(kind: Any) -> str:
    """Module and name, as far as they are text."""
    try:
        module = _module_of(kind)
    except AttributeError:  # it was deleted from the class
        module = None
    name = _qualname_of(kind)
    return clean(f"{module}.{name}" if type(module) is str and module != "builtins" else name)[:MAX_TEXT]


def belongs(kind: Any, module: str, *names: str) -> bool:
    """Whether it is the type of that name in that module. Only types written in C count: a program cannot make one."""
    found = sys.modules.get(module)
    if found is None or _flags_of(kind) & (_IMMUTABLE | _HEAP) == _HEAP:
        return False
    return any(vars(found).get(name) is kind for name in names)


def short(value: Any, limit: int = MAX_TEXT) -> str:
    pieces: list[str] = []
    _Writer(pieces, limit).write(value, 0)
    text = "".join(pieces)
    return clean(text if len(text) <= limit else text[: limit - 1] + "…")


class _Writer:
    def __init__(self, pieces: list[str], limit: int) -> None:
        self._pieces = pieces
        self._left = limit + 1

    def put(self, text: str) -> None:
        self._pieces.append(text)
        self._left -= len(text)

    def write(self, value: Any, depth: int) -> None:
        kind = type(value)
        if type(kind) is type and (kind in _SIMPLE or kind in BRACKETS):
            self._known(value, kind, depth)
        else:
            self._other(value, kind, depth)

    def _known(self, value: Any, base: Any, depth: int) -> None:
        if base in BRACKETS:
            self._contain(value, base, *BRACKETS[base], depth)
        else:
            self.put(_SIMPLE[base](value))

    def _other(self, value: Any, kind: Any, depth: int) -> None:
        if issubclass(kind, type):
            self.put(f"<class '{path_of(value)}'>")
            return
        for base in PLAIN_TYPES:  # a subclass is shown as what it holds, under its own name
            if issubclass(kind, base):
                self.put(f"{name_of(kind)}(")
                self._known(value, base, depth)
                self.put(")")
                return
        if any(belongs(kind, module, *names) for module, names in _STDLIB.items()) and _has_known_zone(value):
            self.put(str(value))
        else:
            self.put(f"<{path_of(kind)} object>")

    def _contain(self, value: Any, base: Any, before: str, after: str, depth: int) -> None:
        size = base.__len__(value)
        if size and depth >= _MAX_DEPTH:
            self.put(f"{before}…{after}")
            return
        if not size and base in (set, frozenset):
            self.put(f"{base.__name__}()")
            return
        self.put(before)
        for index, item in enumerate(base.items(value) if base is dict else base.__iter__(value)):
            if index:
                self.put(", ")
            if index >= _MAX_ITEMS or self._left <= 0:
                self.put("…")
                break
            if base is dict:
                self.write(item[0], depth + 1)
                self.put(": ")
                item = item[1]  # noqa: PLW2901 - the pair was only the way to it
            self.write(item, depth + 1)
        self.put(",)" if base is tuple and size == 1 else after)


def _integer(value: Any) -> str:
    bits = int.bit_length(value)
    return int.__repr__(value) if bits <= _MAX_BITS else f"<int of {bits} bits>"


def _string(value: Any) -> str:
    head = str.__getitem__(value, slice(MAX_TEXT))
    return str.__repr__(head) + ("…" if str.__len__(value) > MAX_TEXT else "")


def _bytes(value: Any) -> str:
    return repr(bytes.__getitem__(value, slice(MAX_TEXT))) + ("…" if bytes.__len__(value) > MAX_TEXT else "")


def _bytearray(value: Any) -> str:
    return f"bytearray({_bytes(bytes(bytearray.__getitem__(value, slice(MAX_TEXT + 1))))})"


def _has_known_zone(value: Any) -> bool:
    """A time zone may be a class of the program."""
    zone = getattr(value, "tzinfo", None)
    return zone is None or belongs(type(zone), "datetime", "timezone")


_SIMPLE: dict[Any, Callable[[Any], str]] = {
    int: _integer,
    bool: bool.__repr__,
    float: float.__repr__,
    complex: complex.__repr__,
    str: _string,
    bytes: _bytes,
    bytearray: _bytearray,
    range: range.__repr__,
    type(None): lambda _: "None",
    type(...): lambda _: "...",
    type: lambda value: f"<class '{path_of(value)}'>",
    _FUNCTION: lambda value: f"<function {clean(value.__qualname__)[:MAX_TEXT]}>",
    _BUILTIN: lambda value: f"<built-in function {value.__name__}>",
}
BRACKETS: dict[Any, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}
