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
        self._length = -1
        """Of the bulk string that comes next; -1: a line comes next."""
        self._open: list[tuple[list[Any], int]] = []
        """Arrays that are not complete, the inner one last, and how many elements each will have."""

    def feed(self, data: bytes) -> list[Any]:
        """The replies that are complete now. Raises `ValueError` for bytes that are none, and what `error` raises."""
        found: list[Any] = []
        if self._rest:
            self._rest += data
            if len(self._rest) < self._length + 2:  # a long string, of which more is to come
                return found
            data = bytes(self._rest)
        at, size, opened = 0, len(data), self._open
        while True:
            value: Any
            if self._length >= 0:
                end = at + self._length
                if size < end + 2:
                    break
                value = data[at:end]
                self._length = -1
            else:
                end = data.find(_END, at)
                if end < 0:
                    break
                kind, text = data[at], data[at + 1 : end]
                if kind == _NUMBER:
                    value = int(text)
                elif kind in (_BULK, _ARRAY):
                    number = int(text)
                    if kind == _BULK and number >= 0:
                        self._length = number
                        at = end + 2
                        continue
                    if number > 0:
                        opened.append(([], number))
                        at = end + 2
                        continue
                    value = [] if number == 0 else None
                else:
                    value = self._text(kind, text)
            at = end + 2
            # A value is complete: it is an element of the innermost open array, or a reply.
            while opened:
                array, number = opened[-1]
                array.append(value)
                if len(array) < number:
                    break
                value = opened.pop()[0]
            else:
                found.append(value)
        self._rest[:] = data[at:]
        return found

    def _text(self, kind: int, text: bytes) -> bytes | Exception:
        if kind == _TEXT:
            return text
        if kind == _ERROR:
            return self._error(text.decode(errors="replace"))
        raise ValueError(f"a reply of the server begins with {bytes((kind,))!r}")
