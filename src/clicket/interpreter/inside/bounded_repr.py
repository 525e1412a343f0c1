"""The `repr` of a value, cut while it is made: a list of long texts is not written out in full first. Objects of the program's
classes run their own `__repr__`."""

from __future__ import annotations

from clicket.interpreter.inside.safe_builtins import BUILTINS, clean, cut
from clicket.interpreter.inside.safe_repr import BRACKETS

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from typing import Any

__all__ = ["MAX_VALUE", "text_of"]

globals()["__builtins__"] = BUILTINS

MAX_VALUE = 10_000
_MAX_BITS = 14_000
"""Python refuses to convert longer numbers to decimal."""


class _Full(Exception):
    """The limit of characters is reached."""


def text_of(value: Any) -> str:
    kind = type(value)
    if kind is str and len(value) > MAX_VALUE:
        return f"{clean(repr(value[:MAX_VALUE]))}… ({len(value) - MAX_VALUE} more characters)"
    if type(kind) is not type or kind not in BRACKETS:
        return cut(_leaf(value, kind), MAX_VALUE)
    writer = _Writer()
    try:
        writer.write(value)
    except _Full:
        return f"{clean(''.join(writer.pieces)[:MAX_VALUE])}… ({len(value)} items)"
    return clean("".join(writer.pieces))


class _Writer:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._left = MAX_VALUE
        self._above: list[int] = []  # ids of the containers around the current one, to detect cycles

    def put(self, text: str) -> None:
        self.pieces.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise _Full

    def write(self, value: Any) -> None:
        kind = type(value)
        if type(kind) is not type or kind not in BRACKETS:
            self.put(_leaf(value, kind))
        elif not value:
            self.put(repr(value))
        elif id(value) in self._above:
            self.put("...".join(BRACKETS[kind]))
        else:
            self._above.append(id(value))
            self._write_items(value, kind)
            self._above.pop()

    def _write_items(self, value: Any, kind: Any) -> None:
        before, after = BRACKETS[kind]
        self.put(before)
        first = True
        for item in value.items() if kind is dict else value:
            if not first:
                self.put(", ")
            first = False
            if kind is dict:
                self.write(item[0])
                self.put(": ")
                self.write(item[1])
            else:
                self.write(item)
        self.put(",)" if kind is tuple and len(value) == 1 else after)


def _leaf(value: Any, kind: Any) -> str:
    if kind is int and value.bit_length() > _MAX_BITS:
        return f"<int of {value.bit_length()} bits>"
    if (kind is str or kind is bytes or kind is bytearray) and len(value) > 2 * MAX_VALUE:
        return repr(value[: 2 * MAX_VALUE])  # the rest would be cut anyway
    return str.__str__(repr(value))
