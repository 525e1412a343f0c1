"""Time that stands still until a test steps it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any

from clicket.errors import UsageError
from clicket.ports import Timer

__all__ = ["StepClock"]

_RESTLESS = 10_000
_BLIND_TURNS = 200


class StepClock:
    """A clock that stands still until it is stepped. It implements `ports.Clock`."""

    boot: str = ""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start = start
        self._at = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _StepTimer]] = []

    def now(self) -> float:
        return self._start + self._at

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
        """Let time pass: every timer that comes due runs, in order, at its own time. The loop does not run meanwhile."""
        until = self._at + seconds
        while self._timers and self._timers[0][0] <= until:
            at, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                self._at = max(self._at, at)
                timer.callback(*timer.args)
        self._at = until

    async def settle(self) -> None:
        """Let the loop run until it has nothing left to do. Threads and child processes are not waited for."""
        # Only the standard loops tell whether they are idle; for others a fixed number of turns must do.
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        for turn in range(_RESTLESS):
            await asyncio.sleep(0)
            if not ready if ready is not None else turn >= _BLIND_TURNS:
                return
        raise UsageError("the loop does not come to rest: some task runs again and again without waiting for anything.")

    async def run(self, seconds: float) -> None:
        """Let time pass timer by timer, the loop settled after each: work that a timer starts may set timers of its own."""
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
