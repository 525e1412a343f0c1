"""Non-blocking pipes on the event loop. Errors of a pipe count as its end; nothing that the other side does raises here."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable

__all__ = ["PipeReader", "PipeWriter"]

_CHUNK = 256 * 1024
_MAX_PIPE = 1024 * 1024
"""The largest pipe buffer, so the most that can be unread at any moment."""


class PipeReader:
    """While it is paused, data stays in the pipe, and the writer blocks when the pipe is full."""

    __slots__ = ("_fd", "_listening", "_loop", "_on_data", "_on_eof", "_paused", "_stopped")

    def __init__(self, fd: int, on_data: Callable[[bytes], None], on_eof: Callable[[], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._on_data = on_data
        self._on_eof = on_eof
        self._listening = False
        self._paused = True
        self._stopped = False

    def resume(self) -> None:
        self._paused = False
        if not self._listening and not self._stopped:
            self._listening = True
            self._loop.add_reader(self._fd, self._ready)

    def pause(self) -> None:
        """Takes effect when data arrives: blocks follow each other quickly, and changing the selector is expensive."""
        self._paused = True

    def drain(self) -> None:
        """Deliver what is in the pipe now; bounded, because the program may go on writing."""
        left = _MAX_PIPE
        while left > 0 and (data := self._read()):
            left -= len(data)
            self._on_data(data)
            if len(data) < _CHUNK:
                return

    def stop(self) -> None:
        self._stopped = True
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._fd)

    def _ready(self) -> None:
        if self._paused:
            self._listening = False
            self._loop.remove_reader(self._fd)
        elif data := self._read():
            self._on_data(data)

    def _read(self) -> bytes:
        if self._stopped:
            return b""
        try:
            data = os.read(self._fd, _CHUNK)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            data = b""
        if not data:
            self.stop()
            if self._on_eof is not None:
                self._on_eof()
        return data


class PipeWriter:
    """Data that does not fit into the pipe waits here."""

    __slots__ = ("_drained", "_fd", "_loop", "_stopped", "_waiting", "waiting_size")

    def __init__(self, fd: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._waiting: deque[memoryview] = deque()
        self.waiting_size = 0
        self._drained: asyncio.Future[None] | None = None
        self._stopped = False

    def send(self, data: bytes) -> None:
        if self._stopped:
            return
        rest = memoryview(data)
        if not self._waiting:
            rest = self._write(rest)
            if rest:
                self._loop.add_writer(self._fd, self._ready)
        if rest:
            self._waiting.append(rest)
            self.waiting_size += len(rest)

    async def drain(self) -> None:
        """Wait until nothing waits here any more, or the pipe was stopped."""
        while self._waiting:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def stop(self) -> None:
        self._stopped = True
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting.clear()
            self._loop.remove_writer(self._fd)
        self.waiting_size = 0
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _ready(self) -> None:
        first = self._waiting[0]
        rest = self._write(first)
        self.waiting_size -= len(first) - len(rest)
        if rest:
            self._waiting[0] = rest
        elif len(self._waiting) > 1:
            self._waiting.popleft()
        else:
            self._stop_waiting()

    def _write(self, data: memoryview) -> memoryview:
        """What did not fit; nothing if the reader is gone."""
        try:
            return data[os.write(self._fd, data) :]
        except (BlockingIOError, InterruptedError):
            return data
        except OSError:
            return data[:0]
