"""A clock that a test advances."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any

from clicket.errors import UsageError
from clicket.model.ports import Timer

__all__ = ["StepClock"]

_MAX_ITERATIONS = 10_000
_BLIND_ITERATIONS = 200


class StepClock:
    """Implements `ports.Clock`. Its time changes only by `advance` and `run`."""

    boot: str = ""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start = start
        self._at = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _StepTimer]] = []

    def now(self) -> float:
        return self._start + self._at

    def set_date(self, now: float) -> None:
        """Set the date, as an administrator does: `now` jumps, `monotonic` and the timers do not."""
        self._start = now - self._at

    def monotonic(self) -> float:
        return self._at

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call `callback` when the clock has been stepped by `delay` seconds."""
        timer = _StepTimer(callback, args)
        heapq.heappush(self._timers, (self._at + max(delay, 0.0), next(self._order), timer))
        return timer

    @property
    def pending(self) -> list[float]:
        """How many seconds from now each waiting timer is due, the next one first."""
        return [at - self._at for at, _, timer in sorted(self._timers) if not timer.cancelled]

    def advance(self, seconds: float) -> None:
        """Advance the time: every timer that becomes due is called, in order, at its own time. The event loop does not run."""
        until = self._at + seconds
        while self._timers and self._timers[0][0] <= until:
            at, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                self._at = max(self._at, at)
                timer.callback(*timer.args)
        self._at = until

    async def settle(self) -> None:
        """Let the event loop run until it is idle. Threads and child processes are not waited for."""
        # Only the standard loops show whether they are idle; others get a fixed number of iterations.
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        for turn in range(_MAX_ITERATIONS):
            await asyncio.sleep(0)
            if not ready if ready is not None else turn >= _BLIND_ITERATIONS:
                return
        raise UsageError("the event loop does not become idle: some task runs again and again without waiting.")

    async def run(self, seconds: float) -> None:
        """Advance the time timer by timer, and let the loop settle after each, because its work may set new timers."""
        until = self._at + seconds
        await self.settle()
        while (waiting := self.pending) and self._at + waiting[0] <= until:
            self.advance(waiting[0])
            await self.settle()
        self._at = until


class _StepTimer:
    __slots__ = ("args", "callback", "cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback = callback
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
