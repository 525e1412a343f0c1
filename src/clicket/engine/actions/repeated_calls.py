"""A request under an id that a call has already: the handle of that call, or `Conflict` if it is another one."""

from __future__ import annotations

from contextlib import suppress

from clicket.engine.actions.handles import CallHandle, Handles
from clicket.engine.cache.kept_outcomes import KEPT, KeptOutcomes
from clicket.engine.core import Core
from clicket.engine.records.stored_calls import closed_while_waiting
from clicket.errors import ClicketError, NotFound, StoreUnavailable
from clicket.model import ToolCall
from clicket.model.ports import Stored

__all__ = ["MOST_TRIES", "RepeatedCalls"]

MOST_TRIES = 3
"""How often a call is made anew whose id was refused, and then was free: the kept outcome was too old."""
_YOUNG = 60.0
"""Seconds after which a call has been written to, or has been erased."""


class RepeatedCalls:
    def __init__(self, core: Core, handles: Handles, kept: KeptOutcomes) -> None:
        self._journal = core.journal
        self._live = core.live
        self._arguments = core.arguments
        self._stored_calls = core.stored_calls
        self._signals = core.signals
        self._phase = core.phase
        self._handles = handles
        self._kept = kept

    async def running(self, request: ToolCall, caller: str) -> CallHandle | None:
        """The handle of a call that runs here under the request's id; else None: the store refuses an id that it has, or whose
        outcome it keeps."""
        assert request.id is not None
        live = self._live.find(request.id, request.thread, caller)
        if live is not None:
            if not live.entry.durable:  # its first commit is under way: its arguments are not on record yet
                with suppress(ClicketError):
                    await self._journal.flush(live.entry)
            if live.entry.durable:
                self._arguments.same_or_conflict(request, live.entry.events[0])
                return self._handles.of(live)
        return None

    async def taken(self, request: ToolCall, caller: str) -> CallHandle:
        """The handle of the call that has the request's id, or has left only its outcome. Raises `Conflict` if it is another call,
        `NotFound` if there is none any more: the id is free."""
        assert request.id is not None
        try:
            stored = await self._stored_calls.find(request.id, request.thread, caller)
        except NotFound:  # its outcome is kept before it is removed
            kept = await self._kept.find(request.id, request.thread, caller)
            if kept is None:
                raise
            stored = kept
        self._arguments.same_or_conflict(request, stored.events[0])
        if stored.key != KEPT and not stored.events[-1].state.is_terminal:
            await self._keep(stored)
        return self._handles.of_stored(stored, request.id)

    async def _keep(self, stored: Stored) -> None:
        """A process that made a call and got no answer tells its caller that the call was not made, and erases it later, if it is there
        and nobody has written to it. So a young call that another process made gets an event before its id is acknowledged here."""
        if self._journal.clock.now() - stored.events[0].at < _YOUNG:
            try:
                newer = await self._signals.append(
                    stored, "note", {"text": "Its id was sent again, to another process."}
                )
            except StoreUnavailable:
                if self._phase.closing:
                    raise closed_while_waiting(stored.id) from None
                raise
            if newer is not None and not newer.events:
                raise NotFound(f"call {stored.id!r} was not made after all. Send it again.")
