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
        self._share = share
        self._turns: dict[str, tuple[asyncio.Semaphore, int]] = {}
        """By caller: its turns, and how many runs have or await one."""

    @asynccontextmanager
    async def turn(self, caller: str, note: Callable[[str], object]) -> AsyncIterator[None]:
        """`note` gets a text when the run has to wait."""
        if not caller:
            yield
            return
        turns, count = self._turns.get(caller) or (asyncio.Semaphore(self._share), 0)
        self._turns[caller] = turns, count + 1
        try:
            if turns.locked():
                note(
                    f"this caller has {self._share} runs already, its share of the sessions; this run waits for one to end"
                )
            async with turns:
                yield
        finally:
            _, count = self._turns[caller]
            if count == 1:
                del self._turns[caller]
            else:
                self._turns[caller] = turns, count - 1
