"""What a runtime does in each state of its worker: take calls, take no new ones, or also hand its waiting calls to other workers.

A runtime that is cordoned or draining still accepts the calls that its own program submits, and leaves them to other workers. A drain
waits for the calls that run here, without a limit of time: a turn of an agent is one of them, also while it waits for a person. A call
that begins to wait later is handed back when the runtime closes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from clicket.engine.core import Core
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.live_call import Call
from clicket.errors import ClicketError
from clicket.model.ports import sleep
from clicket.model.worker import WorkerState

__all__ = ["Draining"]

logger = logging.getLogger("clicket.engine")
_LOOK_AGAIN = 0.05
"""Seconds until calls whose last commit is under way are looked at again."""


class Draining:
    def __init__(self, core: Core, ending: Ending) -> None:
        self._store = core.store
        self._clock = core.clock
        self._live = core.live
        self._claimer = core.claimer
        self._shares = core.shares
        self._phase = core.phase
        self._spawn = core.spawn
        self._ending = ending
        self._draining = asyncio.Event()

    def apply(self, state: WorkerState) -> None:
        """An operator set the state of this worker. `capacity.py` and `recovery.py` ask the entry itself before calls are claimed."""
        logger.info("this worker is %s now", state)
        if not self._shares:
            return
        self._phase.leaves_calls = state != "active"
        if state == "draining":
            self._draining.set()
            self._spawn(self._hand_back_waiting())
        else:
            self._draining.clear()
        if state == "active":
            self._claimer.nudge()

    async def until_drained(self) -> None:
        """Wait until this worker is draining and none of its calls runs any more."""
        while True:
            await self._draining.wait()
            running = [call for call in self._live if call.slot and not call.ended]
            if not running:
                return
            await self._wait_for(running)

    async def until_idle(self) -> None:
        """Wait until no call runs here, and none waits that this worker could take. A call that waits for a person is not waited for."""
        while True:
            await self._claimer.claim()
            busy = [call for call in self._live if call.slot or call.entry.waiting_for is None]
            if not busy:
                return
            await self._wait_for(busy)

    async def _wait_for(self, calls: Sequence[Call]) -> None:
        """Wait until one of the calls has ended here, or for a moment: a call may also begin to wait for a person."""
        ends = [asyncio.ensure_future(self._ending.outcome(call)) for call in calls]
        try:
            over, _ = await asyncio.wait(ends, timeout=_LOOK_AGAIN * 5, return_when=asyncio.FIRST_COMPLETED)
            if any(end.exception() for end in over):  # its end cannot be stored now, which is said at once
                await sleep(self._clock, _LOOK_AGAIN)
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _hand_back_waiting(self) -> None:
        """Other workers get the calls that wait here. Parts of clicket that wait here, such as turns of agents, stay."""
        while self._draining.is_set() and not self._phase.closing:
            waiting = [call for call in self._live if not call.slot and not call.ending and not call.entry.internal]
            ready = [call for call in waiting if _is_on_record(call)]
            for call in ready:
                self._ending.lose(call)
            try:
                if ready:
                    await self._store.hand_back([call.entry.key for call in ready])
            except ClicketError as error:  # the chore for strays releases them later
                logger.warning("%d calls could not be handed back yet: %s", len(ready), error)
            if len(waiting) == len(ready):
                return
            await sleep(self._clock, _LOOK_AGAIN)


def _is_on_record(call: Call) -> bool:
    return call.entry.durable > 0 and call.entry.is_idle
