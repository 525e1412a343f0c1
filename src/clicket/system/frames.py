"""Splits a stream of bytes into length-prefixed frames. A frame whose header is refused allocates no memory.

The hosts of tool processes and of the code interpreter use it. The other end of the interpreter's connection,
`interpreter/sandbox/frames.py`, does not: it runs inside the sandbox, in a bare interpreter without this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

__all__ = ["FrameSplitter"]

_PIECE = 64 * 1024


class FrameSplitter:
    """`header`: the layout of a frame's header. `check` takes its fields, and returns the size of the body or raises."""

    __slots__ = ("_check", "_head", "_header", "_left", "_pieces")

    def __init__(self, header: Struct, check: Callable[..., int]) -> None:
        self._header = header
        self._check = check
        self._head = bytearray()
        self._left = -1  # bytes of the body to come; below 0 the header is not complete
        self._pieces: list[bytearray] = []

    def feed(self, data: bytes) -> Iterator[tuple[bytes, list[bytearray]]]:
        """Yields each complete frame: its header, and its body in pieces, so that a large body is joined only once."""
        view = memoryview(data)
        while True:
            if self._left < 0:
                missing = self._header.size - len(self._head)
                self._head += view[:missing]
                view = view[missing:]
                if len(self._head) < self._header.size:
                    return
                self._left = self._check(*self._header.unpack(self._head))
            if self._left and view:
                piece = view[: self._left]
                view = view[len(piece) :]
                self._left -= len(piece)
                self._add(piece)
            if self._left:
                return
            head = bytes(self._head)
            pieces = self._pieces
            self._left, self._pieces = -1, []
            self._head.clear()
            yield head, pieces

    def _add(self, piece: memoryview) -> None:
        """Merges small pieces, so that a sender of single bytes does not cost an object for each byte."""
        if self._pieces and len(self._pieces[-1]) < _PIECE:
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))
