"""The whole output that a call emitted: in memory while it is small, else in an unnamed temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from hashlib import sha256
from typing import IO, Any

from clicket.model.codec import encode

__all__ = ["Spool"]

_PIECE = 1024 * 1024


class Spool:
    """Text chunks are stored unchanged; with other values, all chunks are JSON lines."""

    __slots__ = ("_file", "_parts", "is_text", "max_memory", "size")

    def __init__(self, max_memory: int) -> None:
        self.max_memory = max_memory
        self.size = 0
        self.is_text = True
        self._parts: list[Any] = []
        self._file: IO[bytes] | None = None

    def add(self, chunk: Any) -> int:
        """Store a chunk; returns its byte offset."""
        offset = self.size
        if type(chunk) is not str and self.is_text:
            self._become_lines()
            offset = self.size
        data = chunk.encode() if self.is_text else encode(chunk) + b"\n"
        self.size += len(data)
        if self._file is None:
            self._parts.append(chunk)
            if self.size > self.max_memory:
                self._move_to_file()
        else:
            self._file.write(data)
        return offset

    @property
    def in_memory(self) -> bool:
        return self._file is None

    def value(self) -> Any:
        """The whole output, if it is in memory: one text, or a list of values."""
        return "".join(self._parts) if self.is_text else list(self._parts)

    def digest(self) -> str:
        sha = sha256()
        for piece in self.pieces():
            sha.update(piece)
        return sha.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        if self._file is None:
            yield from (self._encoded(part) for part in self._parts)
            return
        self._file.seek(0)
        while piece := self._file.read(_PIECE):
            yield piece

    def head(self, size: int) -> bytes:
        """The first bytes of the whole."""
        if self._file is None:
            return b"".join(self.pieces())[:size]
        self._file.seek(0)
        return self._file.read(size)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _encoded(self, part: Any) -> bytes:
        return part.encode() if self.is_text else encode(part) + b"\n"

    def _become_lines(self) -> None:
        """At the first value that is not text: turn the texts so far into JSON lines."""
        texts = self._parts if self._file is None else [b"".join(self.pieces()).decode()]
        self.is_text = False
        if self._file is not None:
            self._file.close()
            self._file = None
        self._parts = list(texts)
        self.size = sum(len(self._encoded(part)) for part in self._parts)

    def _move_to_file(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="clicket-")  # noqa: SIM115  # it lives as long as the spool
        for part in self._parts:
            self._file.write(self._encoded(part))
        self._parts = []
