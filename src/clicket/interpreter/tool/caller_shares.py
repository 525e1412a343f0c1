"""How many runs each caller may have at once, so that none takes every session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

__all__ = ["CallerShares"]


class CallerShares:
    """At most `share` runs of one caller at once; its further runs wait, in order. Runs without a caller are those of the program
    that has the runtime, which shares with no one: they have no limit."""

    def __init__(self, share: int) -> None:
        self._most = share
        self._shares: dict[str, tuple[asyncio.Semaphore, int]] = {}
        """By caller: its share, and how many runs have or await a part of it."""

    @asynccontextmanager
    async def one_run(self, caller: str, note: Callable[[str], object]) -> AsyncIterator[None]:
        """`note` gets a text when the run has to wait."""
        if not caller:
            yield
            return
        share, count = self._shares.get(caller) or (asyncio.Semaphore(self._most), 0)
        self._shares[caller] = share, count + 1
        try:
            if share.locked():
                note(
                    f"this caller has {self._most} runs already, its share of the sessions; this run waits for one to end"
                )
            async with share:
                yield
        finally:
            _, count = self._shares[caller]
            if count == 1:
                del self._shares[caller]
            else:
                self._shares[caller] = share, count - 1
