"""Signals that ask a server or worker to stop: the first one drains, the second one ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, Self, TypeVar

__all__ = ["ShutdownSignals"]

T = TypeVar("T")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ShutdownSignals:
    """The first TERM or INT requests a shutdown. The second ends the process at once: the store stays consistent, and the next
    runtime recovers its calls.

    The handlers are installed with `signal.signal`, not on the event loop, so that a tool which blocks the loop cannot block them.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._requested = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._loop.remove_signal_handler(signal.SIGTERM)
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            _end_now(number)
        self.signal = signal.Signals(number)
        self._loop.call_soon_threadsafe(self._requested.set)

    async def wait(self) -> None:
        """Wait for the first signal."""
        await self._requested.wait()

    async def run_until_requested(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Await `work`. None: a signal came first, and the work was cancelled."""
        task, requested = asyncio.ensure_future(work), asyncio.ensure_future(self._requested.wait())
        try:
            await asyncio.wait((task, requested), return_when=asyncio.FIRST_COMPLETED)
        finally:
            cancelled = not task.done()
            for each in (task, requested):
                each.cancel()
            await asyncio.gather(task, requested, return_exceptions=True)
        return None if cancelled else task.result()


def _end_now(number: int) -> None:
    """Writes past Python's buffers: the signal may have come in the middle of a write to one of them."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    with suppress(OSError):
        os.write(2, b"ended at once; calls that ran here are recovered by the next runtime over this store\n")
    os._exit(128 + number)
