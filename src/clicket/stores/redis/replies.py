"""Replies of the server, in RESP2. redis-py's own parser awaits each line: a claim of ten calls has two hundred of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Replies"]

_END = b"\r\n"


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
                value: Any = data[at:end]
                at, self._length = end + 2, -1
            else:
                end = data.find(_END, at)
                if end < 0:
                    break
                kind, text = data[at], data[at + 1 : end]
                at = end + 2
                if kind == 36:  # $
                    self._length = int(text)
                    if self._length >= 0:
                        continue
                    value = None
                elif kind == 58:  # :
                    value = int(text)
                elif kind == 42:  # *
                    number = int(text)
                    if number > 0:
                        self._open.append(([], number))
                        continue
                    value = [] if number == 0 else None
                elif kind == 43:  # +
                    value = text
                elif kind == 45:  # -
                    value = self._error(text.decode(errors="replace"))
                else:
                    raise ValueError(f"a reply of the server begins with {bytes((kind,))!r}")
            while self._open:
                array, number = self._open[-1]
                array.append(value)
                if len(array) < number:
                    break
                value = self._open.pop()[0]
            else:
                found.append(value)
        self._rest[:] = data[at:]
        return found
