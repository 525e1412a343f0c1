"""What can happen to a call, and whom the parts of the engine tell. `driver.py` says which part acts then.

A part that is done with a call, or has waited for something in vain, reports it here. So no part knows those that go on with the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from clicket.engine.journal import Entry
from clicket.engine.live_call import Call, Late
from clicket.errors import ClicketError
from clicket.model import Event
from clicket.model.ports import Stored
from clicket.model.worker import WorkerState
from clicket.tools.nested import NestedCalls

__all__ = ["Inputs"]


class Inputs(Protocol):
    def go_on(self, call: Call) -> None:
        """Something is over for which the call has waited: a person or a grant has let it run, or no grant does; its credentials are
        there; no result of an equal call serves it."""

    # Slots.

    def slots_granted(self, call: Call) -> None:
        """It has every slot that it needs, or, from the limiter, those of this process."""

    def slots_refused(self, call: Call) -> None:
        """Other processes hold the slots of its tool: it is in the queue again."""

    def stopped_before_start(self, call: Call) -> None:
        """It was stopped while the store was asked for a slot."""

    # The cache.

    def found_in_cache(self, call: Call, output: Any) -> None: ...

    def joined(self, call: Call) -> None:
        """An equal call runs, and this one waits for its result."""

    # Checks.

    def may_run_again(self, call: Call, why: str) -> None:
        """Its tool's check found that the last attempt had no effect, or that the body can continue it: `why`."""

    # The body and the clock.

    def time_is_up(self, call: Call, reason: str) -> None: ...

    def does_not_stop(self, call: Call) -> None:
        """Its body did not stop in its grace."""

    def returned_late(self, call: Call, late: Late | None) -> None:
        """A body that was abandoned returned: a value, an error, or None if it was cancelled in the end."""

    def calls_of(self, call: Call) -> NestedCalls:
        """Its body makes calls of its own."""

    # The journal.

    def on_signal(self, entry: Entry, events: list[Event]) -> None:
        """Another process wrote into a call of this one."""

    def on_unsaved(self, entry: Entry, error: ClicketError) -> None:
        """Its events could not be stored for a while: its waiters get the error, and the call goes on."""

    def on_not_created(self, entry: Entry, error: ClicketError) -> None:
        """The store refused its first commit."""

    # Calls in the store, and this worker.

    async def claimed(self, stored: Sequence[Stored]) -> None:
        """This process owns them now, and they go on here."""

    async def claimed_from_queue(self, stored: Sequence[Stored]) -> None:
        """This process owns them now; some may have to go on where their sessions are."""

    async def session_lost(self, stored: Stored, message: str) -> None:
        """This process claimed a call that has not started, and the session that it needs is gone."""

    def offered(self, stored: Stored) -> bool:
        """Another process offers a call that no process owns. False: it cannot start at once here."""

    def all_claimed(self) -> None:
        """All was claimed that could start here."""

    def worker_is(self, state: WorkerState) -> None:
        """An operator has set the state of this worker."""
