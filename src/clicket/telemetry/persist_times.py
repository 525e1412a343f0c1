"""How long the persist stage takes with its write: from the time of the outcome's event until the store has it and calls its listeners.

The journal cannot record this: an event cannot contain the time of its own write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from clicket.engine.journal import Entry, Observers
from clicket.model import Event

__all__ = ["BOUNDS", "PersistTimes"]

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds: from a commit in memory to one that waits for a disk or a server."""


class PersistTimes:
    """A listener of the journal. `now` is the clock that dates events."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    @classmethod
    def over(cls, observers: Observers, now: Callable[[], float]) -> PersistTimes:
        """The times of a runtime; measured since the first call of this function, so that runtimes without metrics do not pay for it."""
        found = next((each for each in observers.listeners if isinstance(each, cls)), None)
        if found is None:
            found = cls(now)
            observers.add(found)
        return found

    def __call__(self, entry: Entry, events: Sequence[Event]) -> None:
        for event in reversed(events):  # what comes after the outcome is rare
            if event.is_terminal:
                took = max(self._now() - event.at, 0.0)  # the clock may have been set back
                self.counts[bisect_left(BOUNDS, took)] += 1
                self.seconds += took
                return
