"""Which names a block made or changed, and what they hold: type, length, shape, short text. Nothing of the program is run,
and nothing large is kept alive, to find that out."""

from __future__ import annotations

import sys

from clicket.interpreter.inside.arrays import Arrays
from clicket.interpreter.inside.own import BUILTINS, clean
from clicket.interpreter.inside.texts import mro_of, name_of, short

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Variables"]

__builtins__ = BUILTINS

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
            if (old is None or not _same(old, mark)) and not _is_module(kind):
                changed.append((name, value, "created" if old is None else "changed"))
        self._marks = after
        return [self._describe(*change) for change in changed[:MAX_CHANGES]]

    def _describe(self, name: str, value: Any, change: str) -> dict[str, Any]:
        kind = type(value)
        array = self._arrays.look(value)
        if array is not None:
            shape, text = array
            length = shape[0] if shape else None
            return _row(name, kind, text, length, shape, change)
        length = next((_SIZED[base](value) for base in mro_of(kind) if base in _SIZED), None)
        return _row(name, kind, short(value), length, None, change)

    def _mark(self, value: Any, kind: Any) -> Any:
        """What to compare by. Small values stand for themselves; of others only the address and a little of the content."""
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
            return len(value), [(_item(key), _item(value[key])) for key in _ends(value)]
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


def _same(old: Any, new: Any) -> bool:
    return old[0] is new[0] and (old == new or (old[0] is float and old[1] is new[1]))


def _item(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS or (kind is int and value.bit_length() <= _LONG) or (kind is str and len(value) <= _LONG):
        return kind.__name__, value
    size = _SIZED.get(kind)
    return id(value), size(value) if size else 0


def _ends(value: dict[Any, Any]) -> list[Any]:
    """Keys of a small dict, else the first and the last few. Only keys that compare without the program's help."""
    few = _FEW if len(value) <= _FEW else 8
    keys = []
    for key in value:
        if len(keys) >= few:
            break
        keys.append(key)
    if len(value) > _FEW:
        for key in reversed(value):
            if len(keys) >= 2 * few:
                break
            keys.append(key)
    return [key for key in keys if type(key) in (str, int, float, bool, bytes, type(None))]


def _is_module(kind: Any) -> bool:
    return _MODULE in mro_of(kind)
