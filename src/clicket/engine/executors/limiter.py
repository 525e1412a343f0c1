"""Slots and their queue. A call starts when every slot it needs is free. The queue is bounded and never scanned whole.

What a call needs is a tuple of keys, each ending with its capacity: `("runtime", 10)`, `("tool", "crawl", 2)`. Calls of one caller
that need the same form a group; groups that wait for an exhausted key are parked under it and come back when it is released.

Callers take turns: a free slot goes to the next caller that has a call for it, so a caller with many waiting calls delays another's
first by one call at most. Among the calls of one caller the highest priority comes first, then the oldest.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

from clicket.engine.live_call import Call
from clicket.errors import QueueFull

__all__ = ["RUNTIME", "Limiter"]

Key = tuple[Any, ...]
RUNTIME = "runtime"
_Needs = tuple[Key, ...]
_Group = tuple[str, _Needs]
"""The caller, and what its calls need."""
_Place = tuple[int, int, Call]
_Offer = tuple[int, int, _Needs]


class Limiter:
    """`start` is called for a queued call when its slot is taken for it."""

    def __init__(self, *, max_queue: int, start: Callable[[Call], None]) -> None:
        self.max_queue = max_queue
        self.queued = 0
        self.used: dict[Key, int] = {}
        self._start = start
        self._order = itertools.count(1)
        self._groups: dict[_Group, list[_Place]] = {}
        self._equal: dict[_Needs, int] = {}
        """How many callers wait with these needs."""
        self._ready: dict[str, list[_Offer]] = {}
        """Groups that may have a call to start, by caller, in the order of the callers' turns."""
        self._left: dict[_Group, int] = {}
        self._parked: dict[Key, dict[_Group, None]] = {}
        self._blocked: dict[Key, None] = {}
        self.on_free: Callable[[], None] | None = None
        """Called when a slot is free, while calls of other processes wait for one."""

    @property
    def kept(self) -> int:
        """How many entries are kept: of waiting calls, callers and keys. 0 when nothing waits and nothing runs."""
        waiting = sum(len(each) for each in self._groups.values()) + sum(len(each) for each in self._ready.values())
        keys = len(self._groups) + len(self._equal) + len(self._parked) + len(self._left) + len(self.used)
        return waiting + keys

    def take(self, call: Call, force: bool = False) -> bool:
        """Take a slot now, or wait in the queue (False), or raise `QueueFull`. Calls of equal priority and needs start in order."""
        needs = call.plan.needs
        if len(needs) == 1 and not self._groups:  # no call waits, and only the runtime's limit applies
            (key,), used = needs, self.used
            taken = used.get(key, 0)
            if taken < key[-1]:
                used[key] = taken + 1
                call.slot = True
                return True
        if (not self._groups or needs not in self._equal) and self._exhausted(needs) is None:
            self._occupy(call)
            return True
        if self.queued >= self.max_queue and not force:
            raise QueueFull(
                f"{self.queued:,} calls are waiting already (max_queue = {self.max_queue:,}). "
                "Try again when some have ended, or raise the limit."
            )
        call.place = call.place or next(self._order)  # a call that comes back keeps its place
        place = (-call.entry.priority, call.place, call)
        group = (call.entry.caller, needs)
        places = self._groups.get(group)
        if places is None:
            places = self._groups[group] = []
            self._equal[needs] = self._equal.get(needs, 0) + 1
        heapq.heappush(places, place)
        if places[0] is place:  # the group has a new head: offer it under its rank
            self._offer(group)
        call.queued = True
        self.queued += 1
        return False

    def release(self, call: Call) -> None:
        """Release the call's slots, and start the queued calls that can start now."""
        if not call.slot:
            return
        call.slot = False
        used = self.used
        needs = call.plan.needs
        if len(needs) == 1 and not self._parked and not self._ready and self.on_free is None:
            (key,) = needs
            taken = used[key]
            if taken == 1:
                del used[key]
            else:
                used[key] = taken - 1
            return
        for key in needs:
            taken = used[key]
            if taken == 1:
                del used[key]
            else:
                used[key] = taken - 1
            if self._parked:
                for group in self._parked.pop(key, ()):
                    self._offer(group)
        if self._ready:
            self._start_next()
        if self.on_free is not None:
            self.on_free()

    def leave(self, call: Call) -> None:
        """A call left the queue without starting (cancelled, timed out); its entry is skipped later."""
        if not call.queued:
            return
        call.queued = False
        self.queued -= 1
        group = (call.entry.caller, call.plan.needs)
        places = self._groups[group]
        self._left[group] = left = self._left.get(group, 0) + 1
        if left > 32 and left * 2 > len(
            places
        ):  # most entries are of calls that left: remove them, or they pile up behind a slot that is never released
            del self._left[group]
            places[:] = [place for place in places if place[2].queued]
            heapq.heapify(places)
            if places:
                self._offer(group)
            else:
                self._forget(group)

    def block(self, key: Key) -> None:
        """Start no call that needs this key, although this process has room: other processes hold all its slots."""
        self._blocked[key] = None

    def unblock(self, kind: str, name: str | None = None) -> None:
        """Calls that wait for a blocked key of this kind may try again; with `name`, for the key of that tool alone."""
        keys = [key for key in self._blocked if key[0] == kind and name in (None, key[1])]
        for key in keys:
            del self._blocked[key]
        for key in keys:
            for group in self._parked.pop(key, ()):
                self._offer(group)
        if self._ready:
            self._start_next()

    def is_blocked(self, kind: str, name: str | None = None) -> bool:
        """Is a key of this kind blocked? With `name`, the one of that tool."""
        return bool(self._blocked) and any(key[0] == kind and name in (None, key[1]) for key in self._blocked)

    def waiting_tools(self) -> set[str]:
        """Tools that have queued calls; reading the head of each group is enough."""
        return {place[2].entry.tool for places in self._groups.values() for place in places[:10] if place[2].queued}

    def _offer(self, group: _Group) -> None:
        places = self._groups.get(group)
        if places:
            caller, needs = group
            heapq.heappush(self._ready.setdefault(caller, []), (*places[0][:2], needs))

    def _forget(self, group: _Group) -> None:
        del self._groups[group]
        self._left.pop(group, None)
        needs = group[1]
        if self._equal[needs] == 1:
            del self._equal[needs]
        else:
            self._equal[needs] -= 1

    def _start_next(self) -> None:
        while self._ready:
            caller = next(iter(self._ready))
            offers = self._ready[caller]
            if not offers:  # nothing of this caller can start: its groups are parked, or gone
                del self._ready[caller]
                continue
            offer = heapq.heappop(offers)
            rank, order, needs = offer
            group = (caller, needs)
            places = self._groups.get(group)
            if not places or places[0][:2] != (rank, order):
                continue  # an old offer: the group is gone, or has another head by now
            exhausted = self._exhausted(needs)
            if exhausted is not None and exhausted[0] == RUNTIME:
                heapq.heappush(offers, offer)  # no call can start now
                return
            if exhausted is not None:
                self._parked.setdefault(exhausted, {})[group] = None
                continue
            call = heapq.heappop(places)[2]
            if places:
                self._offer(group)
            else:
                self._forget(group)
            if call.queued:
                self._ready[caller] = self._ready.pop(caller)  # the other callers come first now
                call.queued = False
                self.queued -= 1
                self._occupy(call)
                self._start(call)

    def _exhausted(self, needs: _Needs) -> Key | None:
        used = self.used
        for key in needs:
            if used.get(key, 0) >= key[-1] or (self._blocked and key in self._blocked):
                return key
        return None

    def _occupy(self, call: Call) -> None:
        used = self.used
        for key in call.plan.needs:
            used[key] = used.get(key, 0) + 1
        call.slot = True
