"""The time that a block may run. It stands still while the program waits for a use of a tool, which has limits of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from clicket.interpreter.session.timers import Timers

__all__ = ["BlockClock"]

_TIMER = "deadline"


class BlockClock:
    """`on_timeout` is called when the time is up."""

    __slots__ = ("_due_at", "_left", "_on_timeout", "_timers")

    def __init__(self, timers: Timers, on_timeout: Callable[[], object]) -> None:
        self._timers = timers
        self._on_timeout = on_timeout
        self._due_at: float | None = None
        self._left: float | None = None

    def start(self, seconds: float | None) -> None:
        """None: the block has no limit."""
        self._left = None
        self._due_at = None if seconds is None else time.monotonic() + seconds
        if seconds is not None:
            self._timers.start(_TIMER, seconds, self._on_timeout)

    def pause(self) -> None:
        if self._due_at is not None:
            self._left, self._due_at = max(self._due_at - time.monotonic(), 0.0), None
            self._timers.stop(_TIMER)

    def resume(self) -> None:
        if self._left is not None:
            self.start(self._left)

    def stop(self) -> None:
        self._due_at = self._left = None
        self._timers.stop(_TIMER)
