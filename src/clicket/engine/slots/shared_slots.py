"""Slots that all runtimes over one store share, for tools with a limit on concurrent calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from clicket.engine.phase import Phase
from clicket.errors import ClicketError
from clicket.model.ports import Capacity, Clock, sleep

__all__ = ["SharedSlots"]

logger = logging.getLogger("clicket.engine")

_PASS_ON = 1.0
"""Seconds for which calls of this process may pass a slot on before it is offered to other processes."""

_RETRY_FIRST = 0.1
_RETRY_MOST = 1.0


class SharedSlots:
    """Counts what this process holds of each name; the store knows what all hold together.

    A slot that is given back is kept for an iteration of the loop: the next call in the queue takes it without asking the store.
    """

    def __init__(
        self, store: Capacity, clock: Clock, phase: Phase, spawn: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        self._store = store
        self._clock = clock
        self._phase = phase
        self._spawn = spawn
        self._held: dict[str, int] = {}
        self._spare: dict[str, int] = {}
        self._granted: dict[str, float] = {}
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @property
    def is_idle(self) -> bool:
        """No slot is held."""
        return not self._held

    def take_spare(self, name: str) -> bool:
        """Take a slot that a call of this process has just given back, unless other processes have their turn."""
        if not self._spare.get(name) or self._clock.monotonic() - self._granted[name] > _PASS_ON:
            return False
        self._spare[name] -= 1
        return True

    async def take(self, name: str, capacity: int) -> bool:
        async with self._alone(name):
            wanted = self._held.get(name, 0) + 1
            try:
                granted = await self._store.hold(name, wanted, capacity)
            except BaseException:  # the store may have granted the slot, also to a caller that is cancelled now
                self._spawn(self._report(name))
                raise
            if granted:
                self._held[name] = wanted
                self._granted[name] = self._clock.monotonic()
            return granted

    def give(self, name: str) -> None:
        self._spare[name] = self._spare.get(name, 0) + 1
        self._spawn(self._return(name))

    async def _return(self, name: str) -> None:
        """Release the slots in the store that no call of this process took."""
        async with self._alone(name):
            spare = self._spare.pop(name, 0)
            if not spare:
                return
            self._held[name] -= spare
            if not self._held[name]:
                del self._held[name], self._granted[name]
        await self._report(name)

    async def _report(self, name: str) -> None:
        """Send the held count until the store has answered: slots that it counts too many are lost to all processes."""
        delay = _RETRY_FIRST
        while True:
            async with self._alone(name):
                held = self._held.get(name, 0)
                try:
                    await self._store.hold(name, held, held)
                    return
                except ClicketError as error:
                    logger.warning("a slot of %s could not be given back yet: %s", name, error)
            if self._phase.closing:
                return
            await sleep(self._clock, delay)
            delay = min(delay * 2, _RETRY_MOST)

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """One request about a name at a time. The lock of an unused name is removed."""
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
