"""Length-prefixed frames, cut out of a stream of bytes as it arrives. A header that is refused costs no memory.

Both hosts use it: that of the worker processes and that of the code interpreter. The other side of the interpreter's frames,
`sandbox/frames.py`, does not: it runs in the cage with a bare interpreter, without this package and with builtins of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

__all__ = ["FrameSplitter"]

_PIECE = 64 * 1024


class FrameSplitter:
    """`header` is the layout of a frame's header. `check` gets its fields: it returns the size of the body, or raises."""

    __slots__ = ("_check", "_head", "_header", "_left", "_pieces")

    def __init__(self, header: Struct, check: Callable[..., int]) -> None:
        self._header = header
        self._check = check
        self._head = bytearray()
        self._left = -1  # bytes of the body to come; below 0 the header is not complete
        self._pieces: list[bytearray] = []

    @property
    def in_frame(self) -> bool:
        """A frame has begun and not ended."""
        return self._left >= 0 or bool(self._head)

    def feed(self, data: bytes) -> Iterator[tuple[bytes, list[bytearray]]]:
        """Each frame that is complete now: its header, and its body in pieces, so that a big one is joined only once."""
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
            head, pieces = bytes(self._head), self._pieces
            self._left, self._pieces = -1, []
            self._head.clear()
            yield head, pieces

    def _add(self, piece: memoryview) -> None:
        """Small pieces are merged: a sender of single bytes must not make us keep an object for each of them."""
        if self._pieces and len(self._pieces[-1]) < _PIECE:
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))
