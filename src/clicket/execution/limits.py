"""Slots and the line for them. A call starts when everything it needs is free; the line is bounded and never scanned whole.

What a call needs is a tuple of keys: the runtime itself, its tool, its thread, the worker threads. Calls that need the same
form a group; groups that wait for an exhausted key are parked under it and come back when it is released.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable

from clicket.errors import QueueFull
from clicket.journal import LiveCall

__all__ = ["RUNTIME", "Limiter"]

Key = Hashable
RUNTIME = "runtime"
_Group = tuple[Key, ...]
_Place = tuple[int, int, LiveCall]


class Limiter:
    """`start` is called for a queued call when its slot is taken for it."""

    def __init__(self, *, total: int, max_queue: int, start: Callable[[LiveCall], None]) -> None:
        self.capacity: dict[Key, int] = {RUNTIME: total}
        self.used: dict[Key, int] = {RUNTIME: 0}
        self.max_queue = max_queue
        self.queued = 0
        self._start = start
        self._order = itertools.count()
        self._groups: dict[_Group, list[_Place]] = {}
        self._ready: list[tuple[int, int, _Group]] = []
        self._parked: dict[Key, set[_Group]] = {}

    def limit(self, key: Key, capacity: int) -> Key:
        """Declare a key's capacity."""
        self.capacity[key] = capacity
        self.used.setdefault(key, 0)
        return key

    def take(self, call: LiveCall, *, force: bool = False) -> bool:
        """Take a slot now, or stand in line (False), or raise `QueueFull`. Nobody overtakes an equal."""
        if (self.queued == 0 or call.needs not in self._groups) and self._exhausted(call.needs) is None:
            self._occupy(call)
            return True
        if self.queued >= self.max_queue and not force:
            raise QueueFull(
                f"{self.queued:,} calls are waiting already (max_queue = {self.max_queue:,}). "
                "Try again when some have ended, or raise the limit."
            )
        place = (-call.priority, next(self._order), call)
        group = self._groups.get(call.needs)
        if group is None:
            self._groups[call.needs] = [place]
            heapq.heappush(self._ready, (*place[:2], call.needs))
        else:
            first = place < group[0]
            heapq.heappush(group, place)
            if first:  # the group's head changed: offer it again under its new rank
                heapq.heappush(self._ready, (*place[:2], call.needs))
        call.queued = True
        self.queued += 1
        return False

    def release(self, call: LiveCall) -> None:
        """Give back what the call holds, and start whoever can start now."""
        if not call.slot:
            return
        call.slot = False
        for key in call.needs:
            self.used[key] -= 1
            for group in self._parked.pop(key, ()):
                self._offer(group)
        self._advance()

    def leave(self, call: LiveCall) -> None:
        """A call left the line without starting (cancelled, timed out); its place is passed over when it comes up."""
        if call.queued:
            call.queued = False
            self.queued -= 1

    def _offer(self, group: _Group) -> None:
        places = self._groups.get(group)
        if places:
            heapq.heappush(self._ready, (*places[0][:2], group))

    def _advance(self) -> None:
        while self._ready and self.used[RUNTIME] < self.capacity[RUNTIME]:
            rank, order, group = heapq.heappop(self._ready)
            places = self._groups.get(group)
            if not places or places[0][:2] != (rank, order):
                continue  # an old offer: the group is gone, or has another head by now
            exhausted = self._exhausted(group)
            if exhausted is not None:
                self._parked.setdefault(exhausted, set()).add(group)
                continue
            call = heapq.heappop(places)[2]
            if places:
                self._offer(group)
            else:
                del self._groups[group]
            if not call.queued:
                continue
            call.queued = False
            self.queued -= 1
            self._occupy(call)
            self._start(call)

    def _exhausted(self, needs: _Group) -> Key | None:
        for key in needs:
            if self.used.get(key, 0) >= self.capacity[key]:
                return key
        return None

    def _occupy(self, call: LiveCall) -> None:
        for key in call.needs:
            self.used[key] += 1
        call.slot = True
