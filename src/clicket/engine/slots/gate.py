"""Slots of calls: those of this runtime, and those of tools with a limit or a rate for all runtimes over the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from clicket.engine.executors import Limiter
from clicket.engine.inputs import Inputs
from clicket.engine.journal import Journal
from clicket.engine.live_call import Call, Need
from clicket.engine.phase import Phase
from clicket.engine.slots.plans import rate_need
from clicket.engine.slots.rates import Rates
from clicket.engine.slots.shared_slots import SharedSlots
from clicket.errors import ClicketError

__all__ = ["SharedSlotGate"]

logger = logging.getLogger("clicket.engine")
_LOOK_EVERY = 0.1
"""Seconds between two checks whether other processes released slots of a limited tool."""


class SharedSlotGate:
    """`shares`: other processes may use the store."""

    def __init__(
        self,
        limiter: Limiter,
        slots: SharedSlots,
        rates: Rates,
        journal: Journal,
        phase: Phase,
        inputs: Inputs,
        *,
        shares: bool,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._limiter = limiter
        self._slots = slots
        self._rates = rates
        self._journal = journal
        self._clock = journal.clock
        self._phase = phase
        self._inputs = inputs
        self._shares = shares
        self._spawn = spawn

    def admits(self, call: Call) -> bool:
        """May the call start, now that it has a slot of this process? False: it starts once the store has granted the shared slot, and
        a token of the tool's rate."""
        options = call.required_tool().options
        if options.max_concurrency is not None and self._shares and not call.shared_slot:
            call.shared_slot = self._slots.take_spare(_name(call))
            if not call.shared_slot:
                self._begin_ask(call)
                return False
        if options.rate is not None and not call.token:
            self._begin_ask(call)
            return False
        return True

    def _begin_ask(self, call: Call) -> None:
        tool = call.required_tool()
        if tool.options.rate is not None and not call.token:
            self._rates.begin(tool)
        self._spawn(self._ask(call))

    async def _ask(self, call: Call) -> None:
        """Start if the store grants the shared slot and the token, else wait in the queue again."""
        tool = call.required_tool()
        limit = tool.options.max_concurrency
        rate = tool.options.rate
        wait = _LOOK_EVERY
        key: Need = ("tool", tool.name, limit)
        needs_token = rate is not None and not call.token
        try:
            if limit is not None and self._shares and not call.shared_slot:
                call.shared_slot = await self._slots.take(_name(call), limit)
            granted = limit is None or not self._shares or call.shared_slot
            if granted and rate is not None and needs_token:
                key = rate_need(tool)
                wait = await self._rates.take(tool, rate)
                granted = call.token = wait <= 0
        except ClicketError as error:
            logger.warning("%s: its calls cannot be counted with other processes just now: %s", tool.name, error)
            granted = False
        finally:
            if needs_token:
                self._rates.end(tool)
        if call.ending:  # it ended while the store was asked
            self.release(call)
        elif call.stopping is not None:
            self._inputs.stopped_before_start(call)
        elif granted:
            self._journal.wait_for(call.entry, None)
            self._inputs.slots_granted(call)
        else:
            self._limiter.block(key)
            self.release(call)
            self._limiter.take(call, force=True)
            self._inputs.slots_refused(call)
            self._clock.call_later(wait, self._try_again, key[0], tool.name)

    def note_wait(self, call: Call) -> None:
        """The call waits in the queue: record that it waits for its tool's rate, if that is why."""
        tool = call.required_tool()
        entry = call.entry
        if (
            tool.options.rate is None
            or entry.waiting_for is not None
            or not self._limiter.is_blocked("rate", tool.name)
        ):
            return
        text = f"It waits: {tool.name!r} may start {tool.options.rate} calls."
        self._journal.record(entry, "note", {"text": text, "waiting_for": "rate"})
        self._journal.wait_for(entry, "rate")

    def look_again(self) -> None:
        """Other processes may have released slots: calls that wait for a shared slot try again."""
        if not self._phase.closing and self._limiter.is_blocked("tool"):
            self._limiter.unblock("tool")

    def _try_again(self, kind: str, name: str) -> None:
        if not self._phase.closing:
            self._limiter.unblock(kind, name)

    def release(self, call: Call) -> None:
        """Give back every slot that the call holds."""
        if call.shared_slot:
            call.shared_slot = False
            self._slots.give(_name(call))
        self._limiter.release(call)


def _name(call: Call) -> str:
    return f"tool:{call.entry.tool}"
