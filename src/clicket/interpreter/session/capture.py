"""Captures an output stream: head and tail in memory, the whole in an unlinked file up to a limit. Bytes that are not UTF-8 are
replaced, also across pieces."""

from __future__ import annotations

import codecs
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

__all__ = ["Capture", "Captured", "Spool"]

_decoder = codecs.getincrementaldecoder("utf-8")


class Spool:
    """The beginning of a stream in an unlinked file, which is gone when it is closed."""

    __slots__ = ("_fd", "size")

    def __init__(self, folder: Path | None = None) -> None:
        self.size: int = 0
        self._fd, path = tempfile.mkstemp(prefix="clicket-output-", dir=folder)
        os.unlink(path)

    def pieces(self, size: int = 256 * 1024) -> Iterator[bytes]:
        at = 0
        while at < self.size and (piece := os.pread(self._fd, min(size, self.size - at), at)):
            yield piece
            at += len(piece)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            done = os.write(self._fd, view)
            self.size += done
            view = view[done:]

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that has ended. `text` is all of it, or head and tail around a note if it was `cut`; then `spool` has the whole, or
    the beginning if that was too long too (`spool.size < size`)."""

    text: str = ""
    size: int = 0
    cut: bool = False
    spool: Spool | None = None


_EMPTY = Captured()


class Capture:
    """Takes a stream piece by piece; returns each piece as text."""

    __slots__ = ("_decoder", "_folder", "_half", "_head", "_max_spooled", "_spool", "_tail", "size")

    def __init__(self, *, kept: int, max_spooled: int, folder: Path | None = None) -> None:
        self.size: int = 0
        self._half = max(kept // 2, 1)
        self._max_spooled = max_spooled
        self._folder = folder
        self._decoder: codecs.IncrementalDecoder | None = None
        self._head = bytearray()
        self._tail = bytearray()
        self._spool: Spool | None = None

    def feed(self, data: bytes) -> str:
        self._keep(data)
        if self._decoder is None:
            if data.isascii():  # most output: no decoder needed
                return data.decode("ascii")
            self._decoder = _decoder("replace")
        return self._decoder.decode(data)

    def last(self) -> str:
        """The text of an incomplete character at the end."""
        return self._decoder.decode(b"", final=True) if self._decoder else ""

    def finish(self) -> Captured:
        if not self.size:
            return _EMPTY
        if self.size <= 2 * self._half:
            return Captured(text=(self._head + self._tail).decode("utf-8", "replace"), size=self.size)
        head = _whole_end(self._head)
        tail = _whole_start(self._tail[-self._half :])
        note = f"\n[{self.size - len(head) - len(tail)} of {self.size} bytes are left out here]\n"
        text = f"{head.decode('utf-8', 'replace')}{note}{tail.decode('utf-8', 'replace')}"
        return Captured(text=text, size=self.size, cut=True, spool=self._spool)

    def _keep(self, data: bytes) -> None:
        before, self.size = self.size, self.size + len(data)
        if self.size > 2 * self._half:
            self._spill(data)
        room = self._half - before
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 4 * self._half:  # not at each piece: what stays has to be moved
                del self._tail[: -self._half]

    def _spill(self, data: bytes) -> None:
        """Write to the file; first what was kept in memory, which is still complete."""
        try:
            if self._spool is None:
                self._spool = Spool(self._folder)
                self._write(self._head)
                self._write(self._tail)
            self._write(data)
        except OSError:  # the disk is full: nothing is added
            self._max_spooled = 0

    def _write(self, data: bytes | bytearray) -> None:
        assert self._spool is not None
        room = self._max_spooled - self._spool.size
        if room > 0:
            self._spool.write(memoryview(data)[:room])


def _whole_end(data: bytearray) -> bytearray:
    """Without an incomplete character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # the first byte of a character, which tells its length
            return data if back >= (4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2) else data[:-back]
        if byte < 0x80:
            break
    return data


def _whole_start(data: bytearray) -> bytearray:
    """Without an incomplete character at the start."""
    skip = 0
    while skip < min(3, len(data)) and data[skip] & 0xC0 == 0x80:
        skip += 1
    return data[skip:]
