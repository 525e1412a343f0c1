"""Which part acts when something happens to a call: the one table of what follows on what.

It implements `inputs.py`. It is the only part that is made before those that it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clicket.engine.actions.nested_calls import NestedCallMaker
from clicket.engine.core import Core
from clicket.engine.drive.draining import Draining
from clicket.engine.executors import can_stop
from clicket.engine.fleet.offers import Offers
from clicket.engine.fleet.placement import Placement
from clicket.engine.fleet.sessions import SessionPlaces
from clicket.engine.journal import Entry
from clicket.engine.lifecycle.approvals import Approvals
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.external import External
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.lifecycle.next_steps import NextSteps
from clicket.engine.lifecycle.running import Running
from clicket.engine.lifecycle.stopping import Stopping
from clicket.engine.live_call import Call, Late
from clicket.engine.recovery.recovery import Recovery
from clicket.errors import ClicketError
from clicket.model import Event
from clicket.model.codec import as_text, clean
from clicket.model.ports import Stored
from clicket.model.worker import WorkerState
from clicket.tools.nested import NestedCalls

__all__ = ["Driver", "Parts"]


class Parts(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Those that act."""

    core: Core
    ending: Ending
    handover: HandOver
    external: External
    approvals: Approvals
    stopping: Stopping
    running: Running
    next_steps: NextSteps
    recovery: Recovery
    sessions: SessionPlaces
    offers: Offers
    placement: Placement
    draining: Draining
    nesting: NestedCallMaker


class Driver:
    parts: Parts  # set before anything happens

    def go_on(self, call: Call) -> None:
        try:
            self.parts.next_steps.go_on(call)
        except ClicketError as error:  # no caller is waiting here, so the error is recorded on the call
            self.parts.ending.drop(call, error)

    # Slots.

    def slots_granted(self, call: Call) -> None:
        self.parts.running.start_attempt(call)

    def slots_refused(self, call: Call) -> None:
        self.parts.running.wait_in_queue(call)

    def stopped_before_start(self, call: Call) -> None:
        self.parts.handover.end_stopped(call)

    # The cache.

    def found_in_cache(self, call: Call, output: Any) -> None:
        self.parts.core.pipeline.serve(call, output, as_text(output), self.parts.ending.on_outcome_durable)

    def joined(self, call: Call) -> None:
        self.parts.running.wait_in_queue(call)

    # Checks.

    def may_run_again(self, call: Call, why: str) -> None:
        self.parts.recovery.run_again(call, why)

    # The body and the clock.

    def time_is_up(self, call: Call, reason: str) -> None:
        self.parts.stopping.expire(call, reason)

    def does_not_stop(self, call: Call) -> None:
        self.parts.running.abandon(call)

    def returned_late(self, call: Call, late: Late | None) -> None:
        self.parts.running.on_returned(call, late)

    def calls_of(self, call: Call) -> NestedCalls:
        return self.parts.nesting.of(call)

    # The journal.

    def on_signal(self, entry: Entry, events: list[Event]) -> None:
        call = self._call_of(entry)
        if call is None:
            return
        self.parts.external.take(call, events)
        for event in events:
            if event.type == "cancel_requested" and can_stop(call):
                self.parts.stopping.stop(call, "cancel", clean(event.data.get("reason", "")))
            elif event.type == "approval_given":
                self.parts.approvals.take(call, event)

    def on_unsaved(self, entry: Entry, error: ClicketError) -> None:
        call = self._call_of(entry)
        if call is not None:
            self.parts.ending.answer(call, error)

    def on_not_created(self, entry: Entry, error: ClicketError) -> None:
        # The commit may have been made for a signal, such as a cancellation, or for a reader: then nothing else ends the call here, and
        # its caller is to get the call that has its id.
        call = self._call_of(entry)
        if call is not None:
            self.parts.ending.drop(call, error)

    def _call_of(self, entry: Entry) -> Call | None:
        return next((call for call in self.parts.core.live.named(entry.id) if call.entry is entry), None)

    # Calls in the store, and this worker.

    async def claimed(self, stored: Sequence[Stored]) -> None:
        await self.parts.recovery.resume(stored)

    async def claimed_from_queue(self, stored: Sequence[Stored]) -> None:
        await self.parts.sessions.resume(stored)

    async def session_lost(self, stored: Stored, message: str) -> None:
        await self.parts.recovery.lose_session(stored, message)

    def offered(self, stored: Stored) -> bool:
        return self.parts.recovery.start_unclaimed(stored)

    def all_claimed(self) -> None:
        if self.parts.core.gives_away:
            self.parts.placement.ask_once()
        else:
            self.parts.offers.announce_changes()

    def worker_is(self, state: WorkerState) -> None:
        self.parts.draining.apply(state)
