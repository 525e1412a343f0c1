"""Time as the runtime sees it, injected so that tests can step it. Waiting uses the monotonic clock, dates the wall clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

from clicket.bridge import fulfil

__all__ = ["Clock", "SystemClock", "Timer", "sleep"]


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, for what people read."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, for measuring."""
        ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call `callback` on the loop after `delay` seconds."""
        ...


class SystemClock:
    """The machine's clocks and the running loop's timers."""

    __slots__ = ("call_later", "monotonic", "now")

    def __init__(self) -> None:
        self.now = time.time
        self.monotonic = time.perf_counter
        self.call_later: Callable[..., Timer] = asyncio.get_running_loop().call_later


async def sleep(clock: Clock, seconds: float) -> None:
    """Wait on an injected clock."""
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(seconds, fulfil, woken)
    try:
        await woken
    finally:
        timer.cancel()
