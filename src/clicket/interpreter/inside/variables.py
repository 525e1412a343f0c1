"""Which global names a block created or changed, with type, length, shape and short text. No code of the program is run, and no
large object is kept alive for it."""

from __future__ import annotations

import sys

from clicket.interpreter.inside.arrays import Arrays
from clicket.interpreter.inside.safe_builtins import BUILTINS, clean
from clicket.interpreter.inside.safe_repr import name_of, short

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Variables"]

globals()["__builtins__"] = BUILTINS

MAX_CHANGES = 200
MAX_NAMES = 1000
MAX_NAME = 100
_FEW = 32
_MODULE = type(sys)
_LONG = 256
_SCALARS = frozenset({bool, float, complex, range, type(None), type(...)})
_SIZED: dict[Any, Callable[[Any], int]] = {
    base: base.__len__ for base in (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
}


class Variables:
    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._arrays = Arrays()
        self._marks: dict[str, Any] = {}

    def names(self) -> list[str]:
        """All global names without dunder names, also modules."""
        found = [n for n in self._names if type(n) is str and not n.startswith("__") and len(n) <= MAX_NAME]
        return [clean(name) for name in found[:MAX_NAMES]]

    def changes(self) -> list[dict[str, Any]]:
        """Since the last call."""
        self._arrays.refresh()
        before = self._marks
        after = {}
        changed = []
        for name, value in list(self._names.items()):
            if type(name) is not str or name[:1] == "_" or len(name) > MAX_NAME:
                continue
            kind = type(value)
            if kind is _MODULE:
                continue
            mark = self._mark(value, kind)
            after[name] = mark
            old = before.get(name)
            if (old is None or not _same(old, mark)) and not issubclass(kind, _MODULE):
                changed.append((name, value, "created" if old is None else "changed"))
        self._marks = after
        return [self._describe(*change) for change in changed[:MAX_CHANGES]]

    def _describe(self, name: str, value: Any, change: str) -> dict[str, Any]:
        kind = type(value)
        array = self._arrays.look(value)
        shape, text = (None, short(value)) if array is None else array
        length = _length(value, kind) if array is None else shape[0] if shape else None
        found = {"type": name_of(kind), "value": text, "length": length, "shape": shape}
        return {"name": clean(name), **found, "change": change}

    def _mark(self, value: Any, kind: Any) -> Any:
        """What to compare: a small value itself, of others the id and a sample of the content."""
        if kind is int or kind is str or kind is bytes:
            return kind, _brief(value, kind)
        if kind is list or kind is tuple:
            size = len(value)
            return kind, id(value), size, _glance(value if size <= _FEW else value[:8] + value[-8:])
        if kind is dict:
            if len(value) <= _FEW:
                return kind, id(value), list(map(id, value)), _glance(value.values())
            return kind, id(value), len(value), _glance(_ends(value))
        if type(kind) is not type:  # a metaclass of the program may override comparisons
            return type, id(kind), id(value)
        if kind in _SCALARS:
            return kind, value
        if kind is set or kind is bytearray:
            return kind, id(value), len(value), bytes(value[:_LONG]) if kind is bytearray else None
        return kind, id(value), self._arrays.mark(value, kind)


def _brief(value: Any, kind: Any) -> Any:
    """The value itself if it is short, else its length, ends and hash."""
    if kind is int:
        bits = value.bit_length()
        return value if bits <= _LONG else (bits, value & 0xFFFFFFFF)
    return value if len(value) <= _LONG else (len(value), value[:_FEW], value[-_FEW:], hash(value))


def _glance(items: Any) -> list[Any]:
    """Numbers as they are, everything else by id, containers also by size."""
    seen: list[Any] = []
    for item in items:
        kind = type(item)
        if kind is int or kind is float:
            seen.append(item)
        elif kind is list or kind is dict or kind is set:
            seen += (id(item), len(item))
        else:
            seen.append(id(item))
    return seen


def _length(value: Any, kind: Any) -> int | None:
    size = next((size for base, size in _SIZED.items() if issubclass(kind, base)), None)
    try:
        return size(value) if size else None
    except OverflowError:  # range(10**30)
        return None


def _same(old: Any, new: Any) -> bool:
    return old[0] is new[0] and (old == new or (old[0] is float and old[1] is new[1]))


def _ends(value: dict[Any, Any]) -> list[Any]:
    """The first and the last few keys and values."""
    ends: list[Any] = []
    for pairs in (value.items(), reversed(value.items())):
        for number, pair in enumerate(pairs):
            if number >= 8:
                break
            ends += pair
    return ends
