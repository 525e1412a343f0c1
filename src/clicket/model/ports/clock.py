"""Time as the runtime sees it, injected so that tests can step it. Waiting uses the monotonic clock, dates the wall clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from clicket import system
from clicket.system.bridge import fulfil

__all__ = ["Clock", "StoreClock", "SystemClock", "Timer", "agree", "elapsed", "mark", "sleep"]

logger = logging.getLogger("clicket.stores")
_AGREES = 0.5
"""Seconds by which two dates may differ."""


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
        here = system.current()
        self.boot = here.process().boot
        self.now, self.monotonic = here.now, here.monotonic
        self.call_later: Callable[..., Timer] = asyncio.get_running_loop().call_later


class StoreClock:
    """The clocks of a machine, whose dates are those of the store's server: processes on several machines agree on them. While the
    machine's own date agrees with the server's, it is used as it is. `look` compares them; `read` asks the server."""

    __slots__ = ("_host", "_read", "boot", "call_later", "monotonic", "skew")

    def __init__(self, host: Clock, read: Callable[[], Awaitable[float]]) -> None:
        self._host = host
        self._read = read
        self.boot = host.boot
        self.monotonic = host.monotonic
        self.call_later = host.call_later
        self.skew = 0.0
        """Seconds by which the machine's date is behind the server's; 0: they agree."""

    def now(self) -> float:
        return self._host.now() + self.skew

    async def look(self) -> None:
        """Compare the dates. Raises `StoreUnavailable`, and changes nothing."""
        asked = self.monotonic()
        date = await self._read()
        trip = self.monotonic() - asked
        skew = date + trip / 2 - self._host.now()
        before = self.skew
        self.skew = skew if abs(skew) > _AGREES + trip else 0.0
        if self.skew and not before:
            logger.warning(
                "the date of this machine is %.0f s %s that of the store's server, which is used instead. Synchronize the clocks.",
                abs(skew),
                "behind" if skew > 0 else "ahead of",
            )


async def agree(clock: Clock) -> None:
    """Make sure that dates are those of the store's server, if it has a clock, before something is done because its time has come."""
    if isinstance(clock, StoreClock):
        await clock.look()


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
