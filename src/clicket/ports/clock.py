"""Time as the runtime sees it, injected so that tests can step it. Waiting uses the monotonic clock, dates the wall clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from clicket.bridge import fulfil

__all__ = ["Clock", "SystemClock", "Timer", "elapsed", "mark", "sleep"]


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    @property
    def boot(self) -> str:
        """The boot of the machine that `monotonic` counts from; empty if other processes cannot use its readings."""
        ...

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

    __slots__ = ("boot", "call_later", "monotonic", "now")

    def __init__(self) -> None:
        self.boot = _boot()
        self.now = time.time
        self.monotonic = time.perf_counter
        self.call_later: Callable[..., Timer] = asyncio.get_running_loop().call_later


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def mark(clock: Clock) -> dict[str, Any]:
    """The clock reading in an event, from which a process after a restart computes the time since then, also if the date was changed."""
    return {"boot": clock.boot, "up": clock.monotonic()} if clock.boot else {}


def elapsed(clock: Clock, at: float, data: Mapping[str, Any]) -> float:
    """Seconds since an event: by its clock reading if that is of this boot, else by the date."""
    if data.get("boot") and data["boot"] == clock.boot:
        return max(clock.monotonic() - float(data["up"]), 0.0)
    return max(clock.now() - at, 0.0)


async def sleep(clock: Clock, seconds: float) -> None:
    """Wait on an injected clock."""
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(seconds, fulfil, woken)
    try:
        await woken
    finally:
        timer.cancel()
