"""How calls end here: accepted or refused, settled, abandoned by their bodies, or lost to another owner."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from clicket.bridge import fulfil
from clicket.engine.handover import close_started
from clicket.engine.outside import request
from clicket.engine.results import result_from
from clicket.errors import ClicketError, StoreUnavailable
from clicket.journal import Fenced

if TYPE_CHECKING:
    from clicket.engine.local import LocalEngine
    from clicket.journal import LiveCall
    from clicket.model import Event

__all__ = ["Settling"]

logger = logging.getLogger("clicket.engine")


class Settling:
    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    def accepted(self, call: LiveCall, error: ClicketError | None) -> None:
        """The first commit of a call is through, or refused: then the call does not exist."""
        if error is not None:
            call.refused = error
            self.dismiss(call, error)
            self._engine.forget(call)
            call.settling = True
            self._engine.limiter.leave(call)
            self._engine.release(call)
            self.answer(call, error)
        if call.accepted is not None:
            fulfil(call.accepted, None, error)

    def settled(self, call: LiveCall, error: ClicketError | None) -> None:
        """The outcome is durable: tell those who wait, free the slot."""
        if isinstance(error, Fenced):
            self._engine.superseded.discard(call)
            self._engine.forget(call)
            self.dismiss(call, error)
            self._engine.spawn(self._report_fenced(call, error))
        elif error is not None:
            self.accepted(call, error)
            return
        else:
            call.settled = True
            call.result = result_from(call)
            if call.accepted is not None:
                fulfil(call.accepted)
            self._engine.hub.ended(call)
            self._engine.forget(call)
            self.answer(call, None)
        if call.sink is not None and call.sink.spool is not None:
            call.sink.spool.close()
        if call.abandoned:
            self._engine.lingering.add(call)
        else:
            self._engine.release(call)

    def dismiss(self, call: LiveCall, error: ClicketError) -> None:
        """Nothing more will be heard of the call here: those who follow its events are told why."""
        call.gone = error
        watchers, call.watchers = call.watchers, []
        for watcher in watchers:
            fulfil(watcher)

    def answer(self, call: LiveCall, error: ClicketError | None) -> None:
        waiters, call.waiters = call.waiters, []
        for waiter in waiters:
            fulfil(waiter, call.result, error)

    def abandon(self, call: LiveCall) -> None:
        """The body did not stop in its grace: the call ends without it, the slot stays with it."""
        if not call.settling and call.stopping is not None:
            call.abandoned = True
            if call.stopping == "shutdown" and self._engine.shares:
                close_started(self._engine, call)
            else:
                self._engine.pipeline.stop(call, call.stopping, self.settled, execute=True)
            if call.gate is not None:
                fulfil(call.gate)  # the caller goes on, and lets the body go

    def returned(self, call: LiveCall, late: tuple[Any, BaseException | None] | None) -> None:
        """An abandoned body came back after all: with a value or an error, or (None) because it was cancelled at last."""
        self._engine.lingering.discard(call)
        call.abandoned = False
        self._engine.release(call)
        if late is not None and not self._engine.closed:
            self._engine.pipeline.keep_late(call, late)
            self._engine.journal.commit(call)

    async def _report_fenced(self, call: LiveCall, error: Fenced) -> None:
        """Another owner took the call: what we know is kept as a late result, and our callers look for the other's outcome."""
        said: list[Event] = error.details.get("events", [])
        outcome = next((e for e in said if e.is_terminal), None)
        try:
            found = await self._engine.store.load(call.id, call.thread, call.caller)
            if outcome is not None and found and found[0].damaged is None:
                await request(self._engine, found[0], "late_result", dict(outcome.data))
        except StoreUnavailable as unavailable:
            logger.warning("call %s: its late result could not be kept: %s", call.id, unavailable)
        finally:
            self.answer(call, error)
