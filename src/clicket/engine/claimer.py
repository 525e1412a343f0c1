"""Claims calls that wait for a process, as many as can start here now; the others are left to other processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from clicket.engine.rates import Rates
from clicket.errors import ClicketError
from clicket.execution import Limiter
from clicket.ports import Clock, Store, Stored, sleep

__all__ = ["WorkClaimer"]

logger = logging.getLogger("clicket.engine")
_RECENT = 0.125
"""Seconds after a look at the store within which none is needed only because time has passed."""
_GATHER = 0.005
"""Seconds from one claim to the next while calls run here and others wait: the slots that come free meanwhile are filled by one claim,
one commit of their starts and one of their outcomes, instead of several small ones."""


class WorkClaimer:
    """`rooms`: how many more calls of each tool could start here; `room`: of one tool. `resume` continues claimed calls. `queues`: the
    names of the queues of these tools from which this process claims. `on_looked` is called when all was claimed that could start."""

    def __init__(
        self,
        store: Store,
        limiter: Limiter,
        clock: Clock,
        *,
        rooms: Callable[[], dict[str, int]],
        room: Callable[[str], int],
        resume: Callable[[list[Stored]], Awaitable[object]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        queues: Callable[[Iterable[str]], frozenset[str]] = frozenset,
        rates: Rates | None = None,
        on_looked: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._limiter = limiter
        self._clock = clock
        self._rooms = rooms
        self._room = room
        self._resume = resume
        self._spawn = spawn
        self._queues = queues
        self._rates = rates
        self._on_looked = on_looked
        self._running = False
        self._again = False
        self.has_more = False
        """Last time there was more to claim than could start."""
        self._looked_at = float("-inf")
        self._claimed_at = float("-inf")
        """When the last claim began that brought calls."""
        self._lock = asyncio.Lock()
        self.closed = False

    def nudge(self) -> None:
        """There may be work: try to claim."""
        if self._running:
            self._again = True
        elif not self.closed:
            self._running = True
            self._spawn(self._look())

    def nudge_now_and_then(self) -> None:
        """As `nudge`, from a timer, in case a notice was lost: not if this process has looked just now."""
        if self._clock.monotonic() - self._looked_at >= _RECENT:
            self.nudge()

    async def _look(self) -> None:
        try:
            self._again = True
            while self._again and not self.closed:
                self._again = False
                if self.has_more:
                    await self._gather()
                await self.claim()
        except ClicketError as error:
            logger.warning("no work could be claimed: %s", error)
        finally:
            self._running = False

    async def claim(self) -> None:
        """Claim until nothing waits, or nothing more can start here."""
        async with self._lock:
            await self._claim()

    async def _claim(self) -> None:
        full, more = True, False
        while full and not self.closed:
            waiting = self._limiter.waiting_tools()
            rooms = {tool: room for tool, room in self._rooms().items() if room > 0 and tool not in waiting}
            if self._rates is not None:
                rooms = await self._rates.allowed(rooms, again=self.nudge)
            full = False
            if not rooms:
                more = True
                break
            for room in sorted({*rooms.values()}, reverse=True):
                tools = frozenset(tool for tool, free in rooms.items() if free == room)
                began = self._looked_at = self._clock.monotonic()
                claimed = await self._store.claim_waiting(self._queues(tools), room)
                if claimed:
                    self._claimed_at = began
                    await self._resume(claimed)
                if len(claimed) == room:  # there may be more, and there is less room now
                    full = more = True
                    break
        self._expect(more)
        if self._on_looked is not None:
            self._on_looked()

    async def _gather(self) -> None:
        """Wait for more free slots, if calls run here that may free them in the next milliseconds."""
        wait = self._claimed_at + _GATHER - self._clock.monotonic()
        if wait > 0 and self._limiter.used:
            await sleep(self._clock, wait)

    def has_room(self, tool: str) -> bool:
        """May a call of the tool start here now, before calls that wait in the store? Not while there may be such calls."""
        return (
            not self.closed
            and not self.has_more
            and self._room(tool) > 0
            and (not self._limiter.queued or tool not in self._limiter.waiting_tools())
        )

    def expect_more(self) -> None:
        """Calls may wait that could not start: claim again when a slot is free."""
        self._expect(True)

    def _expect(self, more: bool) -> None:
        """A slot is free: claim again, if there was more to claim than could start."""
        self.has_more = more
        self._limiter.on_free = self.nudge if more else None
