"""Calls that wait for a worker, in the order in which a store hands them out.

The order is the contract of `Store.claim_waiting`: callers in turn, beginning after the caller that was served last; within a caller
the highest priority, then the oldest. A store answers it with an index; here it has to be as fast for millions of calls. A test
compares this queue with the claims of the store in memory.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort

__all__ = ["WaitingCalls"]


class WaitingCalls:
    def __init__(self) -> None:
        self._calls: dict[str, list[tuple[int, int]]] = {}
        self._callers: list[str] = []
        self._last = ""
        self.count = 0

    def add(self, caller: str, number: int, priority: int = 0) -> None:
        """`number` grows with the creation time of the call."""
        calls = self._calls.get(caller)
        if calls is None:
            calls = self._calls[caller] = []
            insort(self._callers, caller)
        heapq.heappush(calls, (-priority, number))
        self.count += 1

    def claim(self, limit: int) -> list[int]:
        """One call of each caller, then the second of each, up to `limit`."""
        taken: list[int] = []
        while self._callers and len(taken) < limit:
            at = bisect_right(self._callers, self._last)
            count = min(len(self._callers), limit - len(taken))
            served = self._callers[at : at + count]
            served += self._callers[: count - len(served)]
            for caller in served:
                calls = self._calls[caller]
                taken.append(heapq.heappop(calls)[1])
                if not calls:
                    del self._calls[caller]
                    del self._callers[bisect_left(self._callers, caller)]
            self._last = served[-1]
        self.count -= len(taken)
        return taken
