"""The loop is shared: callers whose calls never wait let others run, and appends are grouped while several callers are at work."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from clicket.execution import Wait

__all__ = ["LoopShare"]

_SHARE = 0.002
"""Seconds of one turn of the loop that calls which never wait may have, all together."""
_CROWD = 64
"""Callers that go on in one turn of the loop when those are over; the others wait in a queue."""
_LATELY = 0.005
"""Seconds after which several callers at once are forgotten."""


class LoopShare:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._loop = asyncio.get_running_loop()
        self._monotonic = monotonic
        self.over_at = 0.0
        """When calls that never wait have had their time in this turn of the loop."""
        self.several_until = float("-inf")
        """Until when several callers count as being at work, so that their appends are worth grouping."""
        self._turning = False
        self._resting = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    async def yield_to_loop(self) -> None:
        """Wait for another turn of the loop, if calls that never wait had their time in this one."""
        if self._monotonic() >= self.over_at:
            await self.rest()

    async def rest(self) -> None:
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._new_turn)
        if self._resting or self._queue:  # this caller is not the only one
            self.note_several(self._monotonic())
        if self._resting < _CROWD and not self._queue:
            self._resting += 1
            await asyncio.sleep(0)
        else:
            place = Wait(loop=self._loop)
            self._queue.append(place)
            await place

    def _new_turn(self) -> None:
        self.over_at = self._monotonic() + _SHARE
        self._resting = 0
        while self._queue and self._resting < _CROWD:
            place = self._queue.popleft()
            if not place.done():  # else its caller was cancelled
                place.set_result(None)
                self._resting += 1
        self._turning = bool(self._queue)
        if self._turning:
            self._loop.call_soon(self._new_turn)

    def note_several(self, now: float) -> None:
        """Several callers are at work."""
        self.several_until = now + _LATELY
