"""Shares the loop: callers whose calls never wait yield to others, and appends are grouped while several callers are active."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from clicket.engine.executors import Wakeups

__all__ = ["LoopShare"]

_SHARE = 0.002
"""Seconds of one iteration of the loop for all calls that never wait together."""
_CROWD = 32
"""Callers that continue in each iteration of the loop after that time; the others wait in a queue."""
_LATELY = 0.005
"""Seconds for which several callers count as active after they were last seen."""


class LoopShare:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._loop = asyncio.get_running_loop()
        self._monotonic = monotonic
        self._wake = Wakeups().fulfil
        self.over_at = 0.0
        """When the time for calls that never wait is over in this iteration of the loop."""
        self.several_until = float("-inf")
        """Until when several callers count as active, so that their appends are grouped."""
        self._iterating = False
        self._resting = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    async def yield_to_loop(self) -> None:
        """Wait for another iteration of the loop, if the time for calls that never wait is over in this one."""
        if self._monotonic() >= self.over_at:
            await self.rest()

    async def rest(self) -> None:
        if not self._iterating:
            self._iterating = True
            self._loop.call_soon(self._new_iteration)
        if self._resting or self._queue:  # this caller is not the only one
            self.note_several(self._monotonic())
        if self._resting < _CROWD and not self._queue:
            self._resting += 1
            await asyncio.sleep(0)
        else:
            place = self._loop.create_future()
            self._queue.append(place)
            await place

    def _new_iteration(self) -> None:
        self.over_at = self._monotonic() + _SHARE
        self._resting = 0
        while self._queue and self._resting < _CROWD:
            place = self._queue.popleft()
            if not place.done():  # else its caller was cancelled
                self._wake(place)
                self._resting += 1
        self._iterating = bool(self._queue)
        if self._iterating:
            self._loop.call_soon(self._new_iteration)

    def note_several(self, now: float) -> None:
        """Note that several callers are active."""
        self.several_until = now + _LATELY
