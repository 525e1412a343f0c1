"""Claims calls that wait for a process, as many as can start here now; the others are left to other processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from clicket.engine.executors import Limiter
from clicket.engine.fleet.capacity import Capacity
from clicket.engine.inputs import Inputs
from clicket.engine.phase import Phase
from clicket.engine.slots.rates import Rates
from clicket.errors import ClicketError
from clicket.model.ports import Clock, Ownership, sleep

__all__ = ["WorkClaimer"]

logger = logging.getLogger("clicket.engine")
_RECENT = 0.125
"""Seconds after a look at the store within which none is needed only because time has passed."""
_GATHER = 0.005
"""Seconds from one claim to the next while calls run here and others wait: the slots that come free meanwhile are filled by one claim,
one commit of their starts and one of their outcomes, instead of several small ones."""


class WorkClaimer:
    def __init__(
        self,
        store: Ownership,
        limiter: Limiter,
        clock: Clock,
        phase: Phase,
        capacity: Capacity,
        rates: Rates,
        inputs: Inputs,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._store = store
        self._limiter = limiter
        self._clock = clock
        self._phase = phase
        self._capacity = capacity
        self._rates = rates
        self._inputs = inputs
        self._spawn = spawn
        self.stopped = False
        """Calls that wait are left to other processes."""
        self._running = False
        self._again = False
        self.has_more = False
        """Last time there was more to claim than could start."""
        self._looked_at = float("-inf")
        self._claimed_at = float("-inf")
        """When the last claim began that brought calls."""
        self._lock = asyncio.Lock()

    @property
    def closed(self) -> bool:
        """Nothing is claimed any more."""
        return self.stopped or self._phase.closing

    def nudge(self) -> None:
        """There may be work: try to claim."""
        if self._running:
            self._again = True
        elif not self.closed:
            self._running = True
            self._spawn(self._look())

    def nudge_now_and_then(self) -> None:
        """As `nudge`, from a timer, in case a message was lost: not if this process has looked just now."""
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
            rooms = {tool: room for tool, room in self._capacity.rooms().items() if room > 0 and tool not in waiting}
            rooms = await self._rates.allowed(rooms, again=self.nudge)
            full = False
            if not rooms:
                more = True
                break
            for room in sorted({*rooms.values()}, reverse=True):
                tools = frozenset(tool for tool, free in rooms.items() if free == room)
                began = self._looked_at = self._clock.monotonic()
                claimed = await self._store.claim_waiting(self._capacity.queues_of(tools), room)
                if claimed:
                    self._claimed_at = began
                    await self._inputs.claimed_from_queue(claimed)
                if len(claimed) == room:  # there may be more, and there is less room now
                    full = more = True
                    break
        self._expect(more)
        self._inputs.all_claimed()

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
            and self._capacity.room(tool) > 0
            and (not self._limiter.queued or tool not in self._limiter.waiting_tools())
        )

    def expect_more(self) -> None:
        """Calls may wait that could not start: claim again when a slot is free."""
        self._expect(True)

    def _expect(self, more: bool) -> None:
        """A slot is free: claim again, if there was more to claim than could start."""
        self.has_more = more
        self._limiter.on_free = self.nudge if more else None
