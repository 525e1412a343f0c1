"""The time that a block may run. It stands still while the program waits for a use of a tool, which has limits of its own; a program
that computes meanwhile is charged for the time that it computes."""

from __future__ import annotations

from collections.abc import Callable

from clicket import system
from clicket.interpreter.session.timers import Timers

__all__ = ["BlockClock"]

_TIMER = "deadline"
_LOOK_TIMER = "computing"
_LOOK_EVERY = 1.0
"""Seconds between two looks at the CPU time during a pause. Most pauses are shorter, and cost no look."""


class BlockClock:
    """`on_timeout` is called when the time is up. `cpu_time`: seconds of CPU that the program has used; without it, pauses are free."""

    __slots__ = ("_cpu_time", "_due_at", "_left", "_on_timeout", "_seen", "_timers")

    def __init__(
        self, timers: Timers, on_timeout: Callable[[], object], cpu_time: Callable[[], float] | None = None
    ) -> None:
        self._timers = timers
        self._on_timeout = on_timeout
        self._cpu_time = cpu_time
        self._due_at: float | None = None
        self._left: float | None = None
        self._seen: tuple[float, float] | None = None
        """In a pause, at the last look: the time, and the CPU time."""

    def start(self, seconds: float | None) -> None:
        """None: the block has no limit."""
        self._left = None
        self._due_at = None if seconds is None else system.monotonic() + seconds
        if seconds is not None:
            self._timers.start(_TIMER, seconds, self._on_timeout)

    def pause(self) -> None:
        if self._due_at is not None:
            self._left, self._due_at = max(self._due_at - system.monotonic(), 0.0), None
            self._timers.stop(_TIMER)
            self._seen = None
            if self._cpu_time is not None:
                self._timers.start(_LOOK_TIMER, _LOOK_EVERY, self._look, self._cpu_time)

    def resume(self) -> None:
        if self._left is not None:
            self._timers.stop(_LOOK_TIMER)
            self.start(self._left)

    def stop(self) -> None:
        self._due_at = self._left = None
        self._timers.stop(_TIMER)
        self._timers.stop(_LOOK_TIMER)

    def _look(self, cpu_time: Callable[[], float]) -> None:
        if self._left is None:
            return
        now = system.monotonic()
        used = cpu_time()
        if self._seen is not None:  # several threads compute no more than the time that passed
            self._left -= min(max(used - self._seen[1], 0.0), now - self._seen[0])
        self._seen = now, used
        if self._left > 0:
            self._timers.start(_LOOK_TIMER, _LOOK_EVERY, self._look, cpu_time)
        else:
            self._left = 0.0
            self._on_timeout()
