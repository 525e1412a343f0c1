"""Single flight: of equal calls at the same time, in all processes, one leads and runs, and the others get its result.

Those that wait are durable and hold no slot. If the leader fails, each of them runs by itself: failures are never shared. `caching`
owns the keys and the stored results.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from clicket.engine.cache.caching import Caching
from clicket.engine.inputs import Inputs
from clicket.engine.live_call import Call
from clicket.engine.phase import Phase
from clicket.engine.slots.shared_slots import SharedSlots
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model.codec import decode
from clicket.model.ports import CacheItem, CacheUse, Clock, Store
from clicket.system.bridge import fulfil

__all__ = ["SingleFlight"]

logger = logging.getLogger("clicket.engine")

_WAIT_FIRST = 0.02
_WAIT_MOST = 0.25
_SAYS_SOMETHING = (State.COMPLETED, State.FAILED)


class _Flight:
    """Equal calls at one time: the one that runs for all, those that wait for it, and its result."""

    __slots__ = ("followers", "item", "leader")

    def __init__(self, leader: Call, followers: list[Call] | None = None) -> None:
        self.leader = leader
        self.followers = followers or []
        self.item: CacheItem | None = None


class SingleFlight:
    def __init__(
        self,
        cache: Caching,
        store: Store,
        clock: Clock,
        slots: SharedSlots,
        phase: Phase,
        inputs: Inputs,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._cache = cache
        self._store = store
        self._clock = clock
        self._slots = slots
        self._phase = phase
        self._inputs = inputs
        self._spawn = spawn
        self._flights: dict[str, _Flight] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._shared = store.durability != "none"

    # A new call.

    @property
    def is_idle(self) -> bool:
        """No call runs for others, and none waits."""
        return not self._flights and not self._waiting

    def enter(self, call: Call) -> None:
        """Serve a call, let it wait for its equal, or send it on."""
        key = call.cache_key
        assert key is not None
        flight = self._flights.get(key)
        if flight is not None:
            flight.followers.append(call)
            self._inputs.joined(call)
            return
        self._flights[key] = _Flight(call)
        self._store.cache_get(key, self._clock.now(), lambda item, error: self._looked_up(call, key, item, error))

    def _looked_up(self, call: Call, key: str, item: CacheItem | None, error: ClicketError | None) -> None:
        if not self._leads(call, key):
            return  # it ended meanwhile; `left` has resumed its followers
        if error is not None:
            logger.warning("the cache could not be read, so call %s runs: %s", call.id, error)
        if item is not None and self._offer(call, item):
            return
        if self._shared and error is None:
            self._spawn(self._lead(call, key))
        else:
            self._run(call)

    def _run(self, call: Call) -> None:
        """Nothing serves the call, perhaps after a wait."""
        call.runs_itself = True
        self._inputs.go_on(call)

    def _leads(self, call: Call, key: str) -> bool:
        flight = self._flights.get(key)
        return flight is not None and flight.leader is call and not call.ending

    def _offer(self, call: Call, item: CacheItem) -> bool:
        try:
            output = decode(item.body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            logger.warning("a cached result is not JSON, so call %s runs: %s", call.id, error)
            return False
        if call.cache_key in self._flights:
            self._flights[call.cache_key].item = item
        self._inputs.found_in_cache(call, output)
        return True

    async def _lead(self, call: Call, key: str) -> None:
        """Only one process runs it. The others wait for its result in the cache."""
        name = f"flight:{key}"
        delay = _WAIT_FIRST
        while self._leads(call, key):
            leads = False
            try:
                leads = await self._slots.take(name, 1)
                item = await self._get(key)
            except ClicketError as error:
                logger.warning("call %s runs without a check of other processes: %s", call.id, error)
                item, alone = None, True
            else:
                alone = leads
            if self._leads(call, key) and not (item is not None and self._offer(call, item)) and alone:
                call.flight = name if leads else None
                self._run(call)
                return
            if leads:
                self._slots.give(name)
            if self._leads(call, key):
                if not call.entry.durable:
                    self._inputs.joined(call)
                await self._pause(delay)
                delay = min(delay * 2, _WAIT_MOST)

    async def _get(self, key: str) -> CacheItem | None:
        answer: asyncio.Future[CacheItem | None] = asyncio.get_running_loop().create_future()
        self._store.cache_get(key, self._clock.now(), lambda item, error: fulfil(answer, item, error))
        return await answer

    async def _pause(self, delay: float) -> None:
        """Wait until a slot is free, or for a limited time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        timer = self._clock.call_later(delay, fulfil, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.discard(waiter)

    def slot_freed(self) -> None:
        for waiter in self._waiting:
            fulfil(waiter)

    # A call ends.

    def use_of(self, call: Call) -> CacheUse | None:
        """How an ending call used the cache. The item that a leader stores is also for its followers."""
        key = call.cache_key
        if key is None:
            return None
        use = self._cache.use_of(call, key)
        flight = self._flights.get(key)
        if use.item is not None and flight is not None and flight.leader is call:
            flight.item = use.item
        return use

    def left(self, call: Call) -> None:
        """A call is over in this process. Its followers get its result; without a result each of them runs."""
        key = call.cache_key
        flight = self._flights.get(key) if key is not None else None
        if key is None or flight is None:
            return
        if flight.leader is not call:
            if call in flight.followers:
                flight.followers.remove(call)
            return
        del self._flights[key]
        self.slot_freed()  # its `_lead` may be waiting, and sees that it is over
        ran = call.flight is not None or call.slot
        if call.flight is not None:
            self._slots.give(call.flight)
            call.flight = None
        if self._phase.closing:
            return
        followers = [follower for follower in flight.followers if not follower.ending]
        item = flight.item if call.ended and call.outcome is State.COMPLETED else None
        if item is not None and item.is_fresh(self._clock.now()):
            for follower in followers:
                if not self._offer(follower, item):
                    self._run(follower)
        elif followers and (item is not None or not (ran and call.ended and call.outcome in _SAYS_SOMETHING)):
            self._promote(key, followers)  # it was stopped, or its result is too old by now
        else:
            for follower in followers:
                self._run(follower)
        if self._cache.needs_sweep():
            self._spawn(self._cache.sweep())

    def _promote(self, key: str, followers: list[Call]) -> None:
        leader, *rest = followers
        self._flights[key] = _Flight(leader, rest)
        if self._shared:
            self._spawn(self._lead(leader, key))
        else:
            self._run(leader)
