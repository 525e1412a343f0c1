"""Pipes to a cage, from the loop's side. Nothing here blocks, and nothing that the other end does raises: a pipe that cannot
be used any more has ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

__all__ = ["PipeReader", "PipeWriter"]

_PIECE = 256 * 1024
_MOST = 1024 * 1024
"""The most that a pipe holds, and so the most that can have been written before a given moment and not been read."""


class PipeReader:
    """The reading end. While it is shut, what is written stays in the pipe, and the writer waits when that is full."""

    __slots__ = ("_at_end", "_ended", "_fd", "_listening", "_loop", "_shut", "_take")

    def __init__(self, fd: int, take: Callable[[bytes], None], at_end: Callable[[], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._take = take
        self._at_end = at_end
        self._listening = False
        self._shut = True
        self._ended = False

    def open(self) -> None:
        self._shut = False
        if not self._listening and not self._ended:
            self._listening = True
            self._loop.add_reader(self._fd, self._ready)

    def shut(self) -> None:
        """Takes effect when something comes: blocks follow each other quickly, and the loop's list is dear to change."""
        self._shut = True

    def drain(self) -> None:
        """Take what is in the pipe now. Bounded: somebody may be writing all the while."""
        left = _MOST
        while left > 0 and (data := self._read()):
            left -= len(data)
            self._take(data)
            if len(data) < _PIECE:
                return

    def end(self) -> None:
        self._ended = True
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._fd)

    def _ready(self) -> None:
        if self._shut:
            self._listening = False
            self._loop.remove_reader(self._fd)
        elif data := self._read():
            self._take(data)

    def _read(self) -> bytes:
        if self._ended:
            return b""
        try:
            data = os.read(self._fd, _PIECE)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            data = b""
        if not data:
            self.end()
            if self._at_end is not None:
                self._at_end()
        return data


class PipeWriter:
    """The writing end. What does not fit now waits here and goes when there is room."""

    __slots__ = ("_ended", "_fd", "_loop", "_waiting")

    def __init__(self, fd: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._waiting: memoryview | None = None
        self._ended = False

    def send(self, data: bytes) -> None:
        if self._ended:
            return
        if self._waiting is not None:
            self._waiting = memoryview(bytes(self._waiting) + data)
            return
        rest = self._write(memoryview(data))
        if rest:
            self._waiting = rest
            self._loop.add_writer(self._fd, self._ready)

    def end(self) -> None:
        self._ended = True
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting = None
            self._loop.remove_writer(self._fd)

    def _ready(self) -> None:
        assert self._waiting is not None
        if rest := self._write(self._waiting):
            self._waiting = rest
        else:
            self._stop_waiting()

    def _write(self, data: memoryview) -> memoryview:
        """What did not fit. Nobody reads any more: nothing is left to be sent, and the cage's end tells the rest."""
        try:
            return data[os.write(self._fd, data) :]
        except (BlockingIOError, InterruptedError):
            return data
        except OSError:
            return data[:0]
