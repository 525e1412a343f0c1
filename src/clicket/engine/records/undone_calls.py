"""Reads the call that an undo is about, with the arguments that its tool got."""

from __future__ import annotations

import msgspec

from clicket.engine.live_call import Call
from clicket.engine.records.arguments import ArgumentsOnRecord
from clicket.engine.records.stored_calls import StoredCalls
from clicket.errors import UsageError
from clicket.model import Record, effect_of, read

__all__ = ["LOST_FOR_UNDO", "UndoneCalls"]

LOST_FOR_UNDO = "its arguments hold a secret that is not kept, and the undo needs it. With CLICKET_SECRET_KEY such calls can be undone"


class UndoneCalls:
    def __init__(self, stored_calls: StoredCalls, arguments: ArgumentsOnRecord) -> None:
        self._stored_calls = stored_calls
        self._arguments = arguments

    async def read(self, call: Call, id: str) -> tuple[Record, Record]:
        """A call of the caller and thread of `call`: as it is on record, and with its real arguments. Its output is also one that came with
        a resolution."""
        stored = await self._stored_calls.find(id, call.thread, call.caller)
        shown = read(stored.id, stored.events)
        arguments, metadata, lost = self._arguments.in_force(stored.id, stored.events)
        if lost:
            raise UsageError(f"call {id!r} cannot be undone: {LOST_FOR_UNDO}.")
        real = msgspec.structs.replace(shown, arguments=arguments, metadata={**shown.metadata, **(metadata or {})})
        if effect_of(shown) == "happened" and shown.resolution is not None:
            real.output = shown.resolution["output"]
        return shown, real
