"""Which names a block made or changed, and what they hold: type, length, shape, short text. Nothing of the program is run,
and nothing large is kept alive, to find that out."""

from __future__ import annotations

import sys

from clicket.interpreter.inside.arrays import Arrays
from clicket.interpreter.inside.own import BUILTINS, clean
from clicket.interpreter.inside.texts import name_of, short

TYPE_CHECKING = False  # the checkers know the name
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
_SCALARS = frozenset({bool, float, complex, type(None), type(...)})
_SIZED: dict[Any, Callable[[Any], int]] = {
    base: base.__len__ for base in (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
}


class Variables:
    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._arrays = Arrays()
        self._marks: dict[str, Any] = {}

    def names(self) -> list[str]:
        """Every name that a program could miss, modules too."""
        found = [n for n in self._names if type(n) is str and not n.startswith("__") and len(n) <= MAX_NAME]
        return [clean(name) for name in found[:MAX_NAMES]]

    def changes(self) -> list[dict[str, Any]]:
        """Since the last time."""
        self._arrays.refresh()
        before, after = self._marks, {}
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
        if array is not None:
            shape, text = array
            return _row(name, kind, text, shape[0] if shape else None, shape, change)
        return _row(name, kind, short(value), _length(value, kind), None, change)

    def _mark(self, value: Any, kind: Any) -> Any:
        """What to compare by. Small values stand for themselves; of others only the address and a little of the content."""
        if type(kind) is not type:  # a metaclass of the program may answer to comparisons
            return type, id(kind), id(value)
        if kind in _SCALARS:
            return kind, value
        if kind is int:
            return kind, value if value.bit_length() <= _LONG else (value.bit_length(), value & 0xFFFFFFFF)
        if kind is str or kind is bytes:
            size = len(value)
            return kind, value if size <= _LONG else (size, value[:_FEW], value[-_FEW:], hash(value))
        return kind, id(value), self._content(value, kind)

    def _content(self, value: Any, kind: Any) -> Any:
        if kind is list or kind is tuple:
            some = value if len(value) <= _FEW else value[:8] + value[-8:]
            return len(value), [_item(item) for item in some]
        if kind is dict:
            return len(value), [(_item(key), _item(held)) for key, held in _ends(value)]
        if kind is set or kind is bytearray:
            return len(value), hash(bytes(value)) if kind is bytearray and len(value) <= 4096 else None
        return self._arrays.mark(value)


def _row(name: str, kind: Any, text: str, length: int | None, shape: Any, change: str) -> dict[str, Any]:
    return {
        "name": clean(name),
        "type": name_of(kind),
        "value": text,
        "length": length,
        "shape": shape,
        "change": change,
    }


def _length(value: Any, kind: Any) -> int | None:
    size = next((size for base, size in _SIZED.items() if issubclass(kind, base)), None)
    try:
        return size(value) if size else None
    except OverflowError:  # range(10**30)
        return None


def _same(old: Any, new: Any) -> bool:
    return old[0] is new[0] and (old == new or (old[0] is float and old[1] is new[1]))


def _item(value: Any) -> Any:
    kind = type(value)
    if type(kind) is not type:
        return id(value)
    if kind in _SCALARS or (kind is int and value.bit_length() <= _LONG) or (kind is str and len(value) <= _LONG):
        return kind.__name__, value
    return id(value), _length(value, kind) if kind in _SIZED else 0


def _ends(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """All of a small dict, else the first and the last few."""
    pairs: list[tuple[Any, Any]] = []
    few = _FEW if len(value) <= _FEW else 8
    for pair in value.items():
        if len(pairs) >= few:
            break
        pairs.append(pair)
    if len(value) > _FEW:
        for pair in reversed(value.items()):
            if len(pairs) >= 2 * few:
                break
            pairs.append(pair)
    return pairs
