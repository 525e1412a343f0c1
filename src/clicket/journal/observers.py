"""Observers of calls: listeners to durable events, contexts around a tool's body, and the trace of a new call.

One object for a runtime, made before it opens and kept when it closes, so that a listener is added once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from clicket.model import Event

__all__ = ["Around", "Listener", "Observers"]

logger = logging.getLogger("clicket.journal")

Listener = Callable[[Any, Sequence[Event]], None]
"""`listener(entry, events)`: called on the loop for each unit of events once it is durable. It neither waits nor raises."""
Around = Callable[[Any], Callable[[], object]]
"""`enter(entry)`: called before a tool's body runs, in the task in which it does; what it returns is called afterwards."""


class Observers:
    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.around: list[Around] = []
        self.left: list[Callable[[Any], None]] = []
        """`left(entry)`: called when another process has the call, or none: no more of its events come here."""
        self.trace: Callable[[], dict[str, str]] | None = None
        """The trace context for a call's first event."""
        self.errors = 0
        """How often a listener raised."""

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; returns a function that removes it."""
        self.listeners.append(listener)

        def remove() -> None:
            if listener in self.listeners:
                self.listeners.remove(listener)

        return remove

    def publish(self, entry: Any, events: Sequence[Event]) -> None:
        """Notify every listener. One that raises is counted and logged; the call and the other listeners are not affected."""
        for listener in tuple(self.listeners):
            try:
                listener(entry, events)
            except Exception:
                self.errors += 1
                logger.exception("a listener failed on call %s; the call is not affected", entry.id)
