"""The timers of chores: each runs on its own, never twice at once. `chores.py` has the engine's own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from clicket.errors import ClicketError
from clicket.model.ports import Clock, Timer

__all__ = ["Background"]

logger = logging.getLogger("clicket.engine")
_SAY_EVERY = 60.0
"""Seconds between two lines about a chore that keeps failing."""


class Background:
    """A chore that fails is logged and tried again. Features of clicket register theirs with `every`, as the engine does."""

    def __init__(self, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._clock = clock
        self._spawn = spawn
        self._chores: dict[str, tuple[float, Callable[[], Awaitable[object]]]] = {}
        self._first: dict[str, float] = {}
        self._to_the_end: set[str] = set()
        self._timers: dict[str, Timer] = {}
        self._failing: dict[str, tuple[float, int, float]] = {}
        """Of chores that fail: since when, how often, and when the log said so last."""
        self._started = False
        self._ended: set[str] = set()
        self.stopped = False

    def every(
        self,
        seconds: float,
        name: str,
        chore: Callable[[], Awaitable[object]],
        *,
        while_closing: bool = False,
        first: float | None = None,
    ) -> None:
        """Do something every this many seconds, from the start on. `while_closing`: until the last call has ended. `first`: seconds
        until the first time, if that comes earlier."""
        self._chores[name] = (seconds, chore)
        if first is not None:
            self._first[name] = first
        if while_closing:
            self._to_the_end.add(name)
        if self._started:
            self._schedule(name)

    def start(self) -> None:
        self._started = True
        for name in self._chores:
            self._schedule(name)

    def wind_down(self) -> None:
        """The runtime closes: start no chore, except those that running calls need."""
        self._ended |= set(self._chores) - self._to_the_end
        self._cancel(self._ended)

    def stop(self) -> None:
        self.stopped = True
        self._cancel(set(self._timers))

    def _cancel(self, names: set[str]) -> None:
        for name in names & set(self._timers):
            self._timers[name].cancel()

    def _schedule(self, name: str) -> None:
        seconds = self._first.pop(name, self._chores[name][0])
        self._timers[name] = self._clock.call_later(seconds, lambda: self._spawn(self._do(name)))

    async def _do(self, name: str) -> None:
        try:
            await self._chores[name][1]()
        except ClicketError as error:
            if not self.stopped:
                self._failed(name, str(error))
        except Exception:
            logger.exception("%s failed; it is tried again", name)
        else:
            self._succeeded(name)
        if not self.stopped and name not in self._ended:
            self._schedule(name)

    def _failed(self, name: str, error: str) -> None:
        """Log the first failure, and each further minute how many there were: chores are tried every second, and a store may be away for
        hours."""
        now = self._clock.monotonic()
        since, count, said = self._failing.get(name, (now, 0, float("-inf")))
        if now - said >= _SAY_EVERY:
            again = f" ({count} times in the last {now - since:.0f} s)" if count else ""
            logger.warning("%s: %s%s", name, error, again)
            said = now
        self._failing[name] = (since, count + 1, said)

    def _succeeded(self, name: str) -> None:
        failed = self._failing.pop(name, None)
        if failed is not None and failed[1] > 1:
            logger.warning("%s: works again, after %d failures", name, failed[1])
