"""A rate limit: a token bucket. Requests that find it empty wait, first come first served."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from clicket import system
from clicket.errors import UsageError
from clicket.model.ports import Clock
from clicket.model.ports.clock import sleep

__all__ = ["Rate"]

_WRITTEN = re.compile(
    r"\s*+(\d++(?:\.\d++)?)\s*+(?:/|per)\s*+(?:(\d++(?:\.\d++)?)\s*+)?(s|sec|second|m|min|minute|h|hour|d|day)s?\s*+"
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Rate:
    """`Rate("10/s")`, `Rate("60/min")`, `Rate("1/2s")`, `Rate(5)` for five a second. One second's tokens may be taken at once."""

    def __init__(self, written: str | float, *, clock: Clock | None = None) -> None:
        self.per_second: float = _per_second(written)
        self.burst: float = max(1.0, self.per_second)
        self._clock = clock
        self._now: Callable[[], float] = system.monotonic if clock is None else clock.monotonic
        self._free_at = 0.0
        """When the bucket is full again if no request comes. This is all of its state."""

    def __repr__(self) -> str:
        return f"Rate({self.per_second:g}/s)"

    def wait(self) -> float:
        """Seconds that a request would have to wait now."""
        return max(0.0, self._free_at - (self.burst - 1.0) / self.per_second - self._now())

    async def take(self) -> float:
        """Take a token, and wait until it is there. Returns the seconds waited. Requests are served in their order."""
        seconds = self.wait()
        self._free_at = max(self._free_at, self._now()) + 1.0 / self.per_second
        if seconds > 0:
            await (asyncio.sleep(seconds) if self._clock is None else sleep(self._clock, seconds))
        return seconds


def _per_second(written: str | float) -> float:
    if isinstance(written, int | float) and not isinstance(written, bool) and 0 < written < float("inf"):
        return float(written)
    found = _WRITTEN.fullmatch(written) if isinstance(written, str) else None
    if found is None or not float(found[1]) or not float(found[2] or 1):
        raise UsageError(f"a rate is written like '10/s', '60/min' or '1/2s', not {written!r}.")
    return float(found[1]) / (float(found[2] or 1) * _SECONDS[found[3][0]])
