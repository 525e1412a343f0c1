"""Named timers, at most one for each name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Timers"]


class Timers:
    def __init__(self) -> None:
        self._timers: dict[str, _Timer] = {}

    def start(self, name: str, delay: float, action: Callable[..., object], *arguments: object) -> None:
        timer = self._timers.get(name)
        if timer is None:
            timer = self._timers[name] = _Timer()
        timer.start(delay, action, arguments)

    def stop(self, name: str) -> None:
        if (timer := self._timers.get(name)) is not None:
            timer.action = None

    def stop_all(self) -> None:
        """For good: the loop keeps no reference to the actions."""
        for timer in self._timers.values():
            timer.cancel()


class _Timer:
    """Every block has deadlines and few are reached, so the loop's timer is not cancelled: when it fires early, it is set
    again for the current deadline."""

    __slots__ = ("_handle", "_loop", "action", "arguments", "due_at")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self.action: Callable[..., object] | None = None
        self.arguments: tuple[object, ...] = ()
        self.due_at = 0.0

    def start(self, delay: float, action: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self.due_at = self._loop.time() + delay
        self.action, self.arguments = action, arguments
        if self._handle is not None and self._handle.when() > self.due_at:
            self._handle.cancel()
            self._handle = None
        if self._handle is None:
            self._handle = self._loop.call_at(self.due_at, self._fire)

    def cancel(self) -> None:
        self.action, self.arguments = None, ()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        handle, self._handle = self._handle, None
        if self.action is None or handle is None:
            self.arguments = ()
        elif handle.when() < self.due_at:
            self._handle = self._loop.call_at(self.due_at, self._fire)
        else:
            action, self.action = self.action, None
            action(*self.arguments)
