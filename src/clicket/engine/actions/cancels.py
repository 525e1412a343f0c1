"""Cancels of calls of any process. A call of this process is stopped here; into another's, the request is written.

The process that owns the call applies it (`stopping.py`).
"""

from __future__ import annotations

from clicket.engine.core import Core
from clicket.engine.journal import Fenced
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.lifecycle.stopping import Stopping
from clicket.engine.live_call import Call
from clicket.model.codec import clean
from clicket.safety.vault import hide_text

__all__ = ["Cancels"]


class Cancels:
    def __init__(self, core: Core, ending: Ending, handover: HandOver, stopping: Stopping) -> None:
        self._live = core.live
        self._stored_calls = core.stored_calls
        self._signals = core.signals
        self._arguments = core.arguments
        self._ending = ending
        self._handover = handover
        self._stopping = stopping

    async def cancel(self, id: str, thread: str | None, caller: str | None, reason: str) -> bool:
        """Cancel a call in any process. One of this process has ended, or was abandoned, when this returns."""
        call = await self.find_live(id, thread, caller)
        if call is None:
            stored = await self._stored_calls.find_named(id, thread, caller)
            if stored.id != id:
                first = stored.events[0].data
                return await self.cancel(stored.id, first["thread"], first.get("caller", ""), reason)
            secrets = self._arguments.secrets_of(stored.id, stored.events, None)
            shown = hide_text(clean(reason), secrets)
            if not await self._signals.write(stored, "cancel_requested", {"reason": shown}):
                return False
            await self._handover.take(stored.key)  # without an owner, no other process would end it
            return True
        asked = self._stopping.cancel(call, reason)
        try:
            result = await self._ending.outcome(call)
        except Fenced:  # another process has the call now: signal it there
            return await self.cancel(id, call.thread, call.caller, reason)
        return asked or result.state.value == "cancelled"

    async def find_live(self, id: str, thread: str | None, caller: str | None = None) -> Call | None:
        """The call if it is live here. An id that the caller chose may be in use in several threads, so the store is read."""
        call = self._live.find(id, thread, caller)
        if call is None or not call.entry.durable:
            return None
        if thread is None and call.request.id is not None:
            await self._stored_calls.find(id, None, caller)
        return call
