"""What runtimes over one store share: slots of tools that allow only so many calls at once, and calls that wait for anybody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from clicket.errors import ClicketError
from clicket.execution import Limiter
from clicket.ports import Clock, Store, Stored, sleep

__all__ = ["Pump", "SharedSlots"]

logger = logging.getLogger("clicket.engine")

_PASS_ON = 1.0
"""Seconds for which a slot may go from call to call in this process before other processes get their chance."""

_SAY_AGAIN = 0.1
_SAY_AGAIN_MOST = 1.0


class SharedSlots:
    """Counts what this process holds of each name; the store knows what all hold together.

    A slot that is given back is kept for a turn of the loop: the next call in line takes it without asking the store.
    """

    def __init__(self, store: Store, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._store = store
        self._clock = clock
        self._spawn = spawn
        self._held: dict[str, int] = {}
        self._spare: dict[str, int] = {}
        self._granted: dict[str, float] = {}
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        self.closed = False

    def take_spare(self, name: str) -> bool:
        """Take what a call of this process gave back just now, if it is not other processes' turn."""
        if not self._spare.get(name) or self._clock.monotonic() - self._granted[name] > _PASS_ON:
            return False
        self._spare[name] -= 1
        return True

    async def take(self, name: str, capacity: int) -> bool:
        async with self._alone(name):
            wanted = self._held.get(name, 0) + 1
            try:
                granted = await self._store.hold(name, wanted, capacity)
            except BaseException:  # also a caller that left: it may have been granted, and nobody was told
                self._spawn(self._settle(name))
                raise
            if granted:
                self._held[name] = wanted
                self._granted[name] = self._clock.monotonic()
            return granted

    def give(self, name: str) -> None:
        self._spare[name] = self._spare.get(name, 0) + 1
        self._spawn(self._return(name))

    async def _return(self, name: str) -> None:
        """Tell the store about the slots that nobody here took up."""
        async with self._alone(name):
            spare = self._spare.pop(name, 0)
            if not spare:
                return
            self._held[name] -= spare
            if not self._held[name]:
                del self._held[name], self._granted[name]
        await self._settle(name)

    async def _settle(self, name: str) -> None:
        """Say what is held, until the store has answered: it may count more, and nobody else could have that."""
        delay = _SAY_AGAIN
        while True:
            async with self._alone(name):
                held = self._held.get(name, 0)
                try:
                    await self._store.hold(name, held, held)
                    return
                except ClicketError as error:
                    logger.warning("a slot of %s could not be given back yet: %s", name, error)
            if self.closed:
                return
            await sleep(self._clock, delay)
            delay = min(delay * 2, _SAY_AGAIN_MOST)

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """One question about a name at a time. Names come and go, and so do their locks."""
        lock, users = self._locks.get(name) or (asyncio.Lock(), 0)
        self._locks[name] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[name]
            if users == 1:
                del self._locks[name]
            else:
                self._locks[name] = (lock, users - 1)


class Pump:
    """Claims calls that are nobody's, as many as can start here now, so that others get theirs.

    `rooms`: how many calls of each tool could start.
    """

    def __init__(
        self,
        store: Store,
        limiter: Limiter,
        *,
        rooms: Callable[[], dict[str, int]],
        take_up: Callable[[list[Stored]], Awaitable[object]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._store = store
        self._limiter = limiter
        self._rooms = rooms
        self._take_up = take_up
        self._spawn = spawn
        self._running = False
        self._again = False
        self.more = False
        """Last time there was more to claim than could start."""
        self._one = asyncio.Lock()
        self.stopped = False

    def nudge(self) -> None:
        """There may be work: look."""
        if self._running:
            self._again = True
        elif not self.stopped:
            self._running = True
            self._spawn(self._pump())

    async def _pump(self) -> None:
        try:
            self._again = True
            while self._again and not self.stopped:
                self._again = False
                await self.claim()
        except ClicketError as error:
            logger.warning("no work could be claimed: %s", error)
        finally:
            self._running = False

    async def claim(self) -> None:
        """Claim until nothing waits, or nothing more can start here."""
        async with self._one:
            await self._claim()

    async def _claim(self) -> None:
        full = True
        while full and not self.stopped:
            waiting = self._limiter.waiting_tools()
            rooms = {tool: room for tool, room in self._rooms().items() if room > 0 and tool not in waiting}
            self.more = full = not rooms
            if not rooms:
                return
            most = max(rooms.values())
            groups = [(frozenset(tool for tool, room in rooms.items() if room == most), most)]
            groups += [(frozenset({tool}), room) for tool, room in rooms.items() if room < most]
            for tools, room in groups:
                claimed = await self._store.claim_waiting(tools, room)
                if claimed:
                    await self._take_up(claimed)
                if len(claimed) == room:  # there may be more, and there is less room now
                    self.more = full = True
                    break
