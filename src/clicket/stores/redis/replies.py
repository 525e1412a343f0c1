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
        at, size = 0, len(data)
        while True:
            if self._length >= 0:
                end = at + self._length
                if size < end + 2:
                    break
                self._put(data[at:end], found)
                self._length = -1
            else:
                end = data.find(_END, at)
                if end < 0:
                    break
                self._take_line(data[at], data[at + 1 : end], found)
            at = end + 2
        self._rest[:] = data[at:]
        return found

    def _take_line(self, kind: int, text: bytes, found: list[Any]) -> None:
        if kind == _NUMBER:
            self._put(int(text), found)
        elif kind == _TEXT:
            self._put(text, found)
        elif kind == _ERROR:
            self._put(self._error(text.decode(errors="replace")), found)
        elif kind == _BULK:
            self._length = int(text)
            if self._length < 0:
                self._put(None, found)
        elif kind == _ARRAY:
            number = int(text)
            if number > 0:
                self._open.append(([], number))
            else:
                self._put([] if number == 0 else None, found)
        else:
            raise ValueError(f"a reply of the server begins with {bytes((kind,))!r}")

    def _put(self, value: Any, found: list[Any]) -> None:
        """A value is complete: it is an element of the innermost open array, or a reply."""
        while self._open:
            array, number = self._open[-1]
            array.append(value)
            if len(array) < number:
                return
            value = self._open.pop()[0]
        found.append(value)
