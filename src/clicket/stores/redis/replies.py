"""Replies of the server, in RESP2. redis-py's own parser awaits each line: a claim of ten calls has two hundred of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Replies"]

_END = b"\r\n"
_ARRAY, _BULK, _ERROR, _NUMBER, _TEXT = b"*$-:+"


class Replies:
    """Made of the bytes that are fed to it; what is incomplete waits for more. `error(text)` makes an error that the server sent."""

    def __init__(self, error: Callable[[str], Exception]) -> None:
        self._error = error
        self._rest = bytearray()
        """What was fed and is not part of a reply yet."""
        self._needed = 0
        """So many bytes must be there before it is worth to look again: the end of a long string."""
        self._open: list[tuple[list[Any], int]] = []
        """Arrays that are not complete, the inner one last, and how many elements each will have."""

    def feed(self, data: bytes) -> list[Any]:
        """The replies that are complete now. Raises `ValueError` for bytes that are not a reply, and what `error` raises."""
        found: list[Any] = []
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return found
            data = bytes(self._rest)
        at = 0
        size = len(data)
        opened = self._open
        find = data.find
        array, number = opened[-1] if opened else (found, -1)  # without an open array, a value is a reply
        missing = number - len(array)
        self._needed = 0
        while True:
            end = find(_END, at)
            if end < 0:
                break
            kind = data[at]
            value: Any
            if kind == _BULK:
                start = end + 2
                length = int(data[at + 1 : end])
                if length >= 0:
                    end = start + length
                    if size < end + 2:
                        self._needed = end + 2 - at
                        break
                    value = data[start:end]
                else:
                    value = None
            elif kind == _NUMBER:
                value = int(data[at + 1 : end])
            elif kind == _ARRAY:
                number = int(data[at + 1 : end])
                if number > 0:
                    array = []
                    missing = number
                    opened.append((array, number))
                    at = end + 2
                    continue
                value = [] if number == 0 else None
            else:
                value = self._text(kind, data[at + 1 : end])
            at = end + 2
            array.append(value)
            missing -= 1
            while missing == 0:  # the innermost array is complete: it is an element of the next one, or a reply
                value = opened.pop()[0]
                if opened:
                    array, number = opened[-1]
                    array.append(value)
                    missing = number - len(array)
                else:
                    array = found
                    missing = -1
                    found.append(value)
        self._rest[:] = data[at:]
        return found

    def _text(self, kind: int, text: bytes) -> bytes | Exception:
        if kind == _TEXT:
            return text
        if kind == _ERROR:
            return self._error(text.decode(errors="replace"))
        raise ValueError(f"a reply of the server begins with {bytes((kind,))!r}")
