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
        self._on_close: list[Callable[[], None]] = []
        self.errors = 0
        """How often a listener raised."""

    def add(self, listener: Listener, on_close: Callable[[], None] | None = None) -> Callable[[], None]:
        """Add a listener; returns a function that removes it. `on_close` is called when the runtime has closed."""
        self.listeners.append(listener)
        if on_close is not None:
            self._on_close.append(on_close)

        def remove() -> None:
            if listener in self.listeners:
                self.listeners.remove(listener)
            if on_close is not None and on_close in self._on_close:
                self._on_close.remove(on_close)

        return remove

    def close(self) -> None:
        """The runtime has closed: no more events come until it is opened again."""
        for on_close in tuple(self._on_close):
            on_close()

    def publish(self, entry: Any, events: Sequence[Event]) -> None:
        """Notify every listener. One that raises is counted and logged; the call and the other listeners are not affected."""
        for listener in tuple(self.listeners):
            try:
                listener(entry, events)
            except Exception:
                self.errors += 1
                logger.exception("a listener failed on call %s; the call is not affected", entry.id)
