"""Deadlines that are almost never met. A loop timer per call costs more than the rest of starting it, so long deadlines share.

Calls whose time is up in the same twentieth of a second lie in one bucket; one timer walks the buckets. A deadline fires at most
a bucket late, never early. Short ones get a timer of their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from clicket.journal import LiveCall
from clicket.ports import Clock, Timer

__all__ = ["Deadlines"]

_WIDTH = 0.05
_SHORT = 2.0


class Deadlines:
    """`expire` is called for each call that was not dropped in time."""

    def __init__(self, clock: Clock, expire: Callable[[LiveCall], None]) -> None:
        self._clock = clock
        self._monotonic = clock.monotonic
        self._expire = expire
        self._buckets: dict[int, set[LiveCall]] = {}
        self._order: list[int] = []
        self._timer: Timer | None = None

    def add(self, call: LiveCall, seconds: float) -> Timer | int:
        """Start a deadline; what it returns is for `drop`."""
        if seconds < _SHORT:
            return self._clock.call_later(seconds, self._expire, call)
        number = int((self._monotonic() + seconds) / _WIDTH) + 1
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = {call}
            heapq.heappush(self._order, number)
            if self._timer is None or self._order[0] == number:
                self._wait()
        else:
            bucket.add(call)
        return number

    def drop(self, call: LiveCall, deadline: Timer | int) -> None:
        """The call made it."""
        if isinstance(deadline, int):
            bucket = self._buckets.get(deadline)
            if bucket is not None:
                bucket.discard(call)
        else:
            deadline.cancel()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(max(self._order[0] * _WIDTH - self._monotonic(), 0.0), self._walk)

    def _walk(self) -> None:
        self._timer = None
        now = int(self._monotonic() / _WIDTH + 1e-6)
        while self._order and self._order[0] <= now:
            for call in self._buckets.pop(heapq.heappop(self._order)):
                self._expire(call)
        while self._order and not self._buckets[self._order[0]]:  # everybody made it: nobody to wake up for
            del self._buckets[heapq.heappop(self._order)]
        if self._order:
            self._wait()
