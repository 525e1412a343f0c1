"""Deadlines, of which few are ever reached. A loop timer per call costs more than the rest of its start, so long deadlines share timers.

Calls whose deadlines are in the same twentieth of a second share a bucket, and one timer serves all buckets. Only calls that are
still in their bucket when its time comes get their own timer, for the exact moment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from clicket.engine.live_call import Call
from clicket.model.ports import Clock, Timer

__all__ = ["Deadlines"]

_WIDTH = 0.05
_LONG = 1e9
_SHORT = 2.0


class Deadlines:
    """`expire` is called for each call that was not dropped in time."""

    def __init__(self, clock: Clock, expire: Callable[[Call], None]) -> None:
        self._clock = clock
        self._monotonic = clock.monotonic
        self._expire = expire
        self._buckets: dict[int, dict[Call, float]] = {}
        self._order: list[int] = []
        self._near: dict[Call, Timer] = {}
        self._timer: Timer | None = None

    def add(self, call: Call, seconds: float) -> Timer | int:
        """Start a deadline; what it returns is for `drop`."""
        if seconds < _SHORT:
            return self._clock.call_later(seconds, self._expire, call)
        when = self._monotonic() + min(seconds, _LONG)
        number = int(when / _WIDTH)
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = {call: when}
            heapq.heappush(self._order, number)
            if self._timer is None or self._order[0] == number:
                self._wait()
        else:
            bucket[call] = when
        return number

    def drop(self, call: Call, deadline: Timer | int) -> None:
        """The call ended in time."""
        if not isinstance(deadline, int):
            deadline.cancel()
            return
        bucket = self._buckets.get(deadline)
        if bucket is not None:
            bucket.pop(call, None)
        elif (timer := self._near.pop(call, None)) is not None:
            timer.cancel()

    def close(self) -> None:
        for timer in (self._timer, *self._near.values()):
            if timer is not None:
                timer.cancel()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(max(self._order[0] * _WIDTH - self._monotonic(), 0.0), self._walk)

    def _walk(self) -> None:
        self._timer = None
        now = self._monotonic()
        while self._order and self._order[0] * _WIDTH <= now + _WIDTH / 10:
            for call, when in self._buckets.pop(heapq.heappop(self._order)).items():
                self._near[call] = self._clock.call_later(max(when - now, 0.0), self._fire, call)
        while self._order and not self._buckets[self._order[0]]:  # all its calls ended in time: no timer is needed
            del self._buckets[heapq.heappop(self._order)]
        if self._order:
            self._wait()

    def _fire(self, call: Call) -> None:
        del self._near[call]
        self._expire(call)
