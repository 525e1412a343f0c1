"""Slots of calls: those of this runtime, and those of tools with a limit for all runtimes over the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from clicket.call import Call
from clicket.engine.shared_slots import SharedSlots
from clicket.errors import ClicketError
from clicket.execution import Limiter
from clicket.ports import Clock

__all__ = ["SharedSlotGate"]

logger = logging.getLogger("clicket.engine")
_LOOK_EVERY = 0.1
"""Seconds between two checks whether other processes released slots of a limited tool."""


class SharedSlotGate:
    """`start(call)`: it has every slot that it needs. `wait(call)`: it is in the queue again. `on_stopped(call)`: it was
    stopped while the store was asked for a slot."""

    def __init__(
        self,
        limiter: Limiter,
        slots: SharedSlots,
        clock: Clock,
        *,
        shares: bool,
        start: Callable[[Call], None],
        wait: Callable[[Call], None],
        on_stopped: Callable[[Call], None],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._limiter = limiter
        self._slots = slots
        self._clock = clock
        self._shares = shares
        self._start = start
        self._wait = wait
        self._on_stopped = on_stopped
        self._spawn = spawn
        self.closed = False

    def admits(self, call: Call) -> bool:
        """May the call start, now that it has a slot of this process? False: it starts once the store has granted the shared slot."""
        limit = call.required_tool().options.max_concurrency
        if limit is None or call.shared_slot or not self._shares:
            return True
        name = _name(call)
        if self._slots.take_spare(name):
            call.shared_slot = True
            return True
        self._spawn(self._ask(call, name, limit))
        return False

    async def _ask(self, call: Call, name: str, limit: int) -> None:
        """Start if the store grants the shared slot, else wait in the queue again."""
        try:
            granted = await self._slots.take(name, limit)
        except ClicketError as error:
            logger.warning("%s: its slots cannot be counted with other processes just now: %s", call.entry.tool, error)
            granted = False
        call.shared_slot = granted
        if call.ending:  # it ended while the store was asked for a slot
            self.release(call)
        elif call.stopping is not None:
            self._on_stopped(call)
        elif granted:
            self._start(call)
        else:
            self._limiter.block(("tool", call.entry.tool, limit))
            self._limiter.release(call)
            self._limiter.take(call, force=True)
            self._wait(call)
            self._clock.call_later(_LOOK_EVERY, self.look_again)

    def look_again(self) -> None:
        """Other processes may have released slots: calls that wait for a shared slot try again."""
        if not self.closed and self._limiter.is_blocked:
            self._limiter.unblock()

    def release(self, call: Call) -> None:
        """Give back every slot that the call holds."""
        if call.shared_slot:
            call.shared_slot = False
            self._slots.give(_name(call))
        self._limiter.release(call)


def _name(call: Call) -> str:
    return f"tool:{call.entry.tool}"
