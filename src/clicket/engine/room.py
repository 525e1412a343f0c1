"""Room for calls: the slots of this runtime, and those of tools whose limit counts in all runtimes over the store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from clicket.engine.handover import close_started
from clicket.errors import ClicketError

if TYPE_CHECKING:
    from clicket.engine.local import LocalEngine
    from clicket.journal import LiveCall

__all__ = ["Room"]

logger = logging.getLogger("clicket.engine")
_LOOK_EVERY = 0.1
"""Seconds between two looks whether other processes left room for a limited tool."""


class Room:
    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._limiter = engine.limiter
        self._slots = engine.slots
        self._pump = engine.pump
        self._shares = engine.shares

    def has(self, call: LiveCall) -> bool:
        """May the call start, now that it has a slot here? False: it is being asked, and the call begins later."""
        limit = call.required_tool().options.max_concurrency
        if limit is None or call.shared or not self._shares:
            return True
        name = f"tool:{call.tool_name}"
        if self._slots.take_spare(name):
            call.shared = True
            return True
        self._engine.spawn(self._share(call, name, limit))
        return False

    async def _share(self, call: LiveCall, name: str, limit: int) -> None:
        """Start when all processes together leave room, else stand in line again."""
        engine = self._engine
        try:
            granted = await self._slots.take(name, limit)
        except ClicketError as error:
            logger.warning("%s: its slots cannot be counted with other processes just now: %s", call.tool_name, error)
            granted = False
        call.shared = granted
        if call.settling:  # it ended while we asked
            self.release(call)
        elif call.stopping == "shutdown":
            close_started(engine, call)
        elif call.stopping is not None:
            engine.pipeline.stop(call, call.stopping, engine.settled)
        elif granted:
            engine.begin(call)
        else:
            self._limiter.shut(("tool", call.tool_name, limit))
            self._limiter.release(call)
            self._limiter.take(call, force=True)
            engine.stand(call)
            engine.clock.call_later(_LOOK_EVERY, self.look)

    def look(self) -> None:
        """Others may have left some: whoever waits for it tries again."""
        if not self._engine.closing and self._limiter.is_shut:
            self._limiter.reopen()

    def release(self, call: LiveCall) -> None:
        """Give back every slot that the call holds."""
        if call.shared:
            call.shared = False
            self._slots.give(f"tool:{call.tool_name}")
        self._limiter.release(call)
        if self._pump.more:
            self._pump.nudge()
