"""Lets a call go on to what it needs next: a person, its time, its credentials, the result of an equal call, another process, a slot.

`go_on` is called for a new call, for one that was taken over, and whenever something is over that the call has waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clicket.engine.call.next_step import NextStep, WaitingCall, next_step
from clicket.engine.core import Core
from clicket.engine.lifecycle.approvals import Approvals
from clicket.engine.lifecycle.credential_waits import CredentialWaits
from clicket.engine.lifecycle.dep_waits import DepWaits
from clicket.engine.lifecycle.due_calls import DueCalls
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.lifecycle.running import Running
from clicket.engine.live_call import Call
from clicket.kernel import State

__all__ = ["NextSteps"]


class NextSteps:
    def __init__(
        self,
        core: Core,
        ending: Ending,
        handover: HandOver,
        running: Running,
        approvals: Approvals,
        due_calls: DueCalls,
        credentials: CredentialWaits,
        dep_waits: DepWaits,
    ) -> None:
        self._journal = core.journal
        self._live = core.live
        self._flights = core.flights
        self._phase = core.phase
        self._registry = core.registry
        self._ending = ending
        self._due_calls = due_calls
        self._dep_waits = dep_waits
        self._acts: dict[NextStep, Callable[[Call], None]] = {
            NextStep.ASK_PERSON: approvals.ask,
            NextStep.KEEP: self._keep,
            NextStep.WAIT_FOR_TIME: due_calls.defer,
            NextStep.WAIT_FOR_DEPS: dep_waits.enter,
            NextStep.FIND_CREDENTIALS: credentials.enter,
            NextStep.FIND_RESULT: self._find_result,
            NextStep.GIVE_AWAY: handover.give_away,
            NextStep.TAKE_SLOT: running.take_slot,
        }

    def go_on(self, call: Call) -> None:
        """Decide what the call needs next, and begin with that. Raises `QueueFull` for a new call: then nothing of it is stored."""
        self._acts[next_step(self._known(call))](call)

    def _known(self, call: Call) -> WaitingCall:
        tool = call.required_tool()
        entry = call.entry
        leaves_calls = self._phase.leaves_calls
        return WaitingCall(
            is_asked=call.verdict == "ask" and not call.is_allowed,
            waits_for_person=entry.waiting_for == "approval",
            is_early=call.request.not_before is not None and self._due_calls.wait_of(call) > 0,
            # The process that runs the call looks for these two.
            needs_deps=call.origin.deps is not None and not leaves_calls and self._dep_waits.must_wait(call),
            needs_credentials=bool(tool.options.credentials) and not call.credentials and not leaves_calls,
            may_be_cached=call.cache_key is not None and not call.runs_itself and entry.state is State.PENDING,
            is_left=leaves_calls and not (entry.internal or self._registry.is_inner(tool.name)) and tool.traits.listed,
        )

    def _keep(self, call: Call) -> None:
        self._journal.commit(call.entry, partial(self._ending.on_created, call))

    def _find_result(self, call: Call) -> None:
        self._live.add(call)
        self._flights.enter(call)
