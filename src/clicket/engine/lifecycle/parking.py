"""Calls whose body is over without an outcome: their slots are released, and they go on without a body."""

from __future__ import annotations

from functools import partial

from clicket.engine.core import Core
from clicket.engine.executors import attempt_of
from clicket.engine.executors.stopping import take_parked
from clicket.engine.lifecycle.approvals import Approvals
from clicket.engine.lifecycle.credential_waits import CredentialWaits, not_believed
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.external import External
from clicket.engine.lifecycle.reconciling import Reconciling
from clicket.engine.live_call import Call
from clicket.errors import CredentialMissing
from clicket.tools.question import InputNeeded

__all__ = ["Parking"]


class Parking:
    def __init__(
        self,
        core: Core,
        ending: Ending,
        approvals: Approvals,
        external: External,
        reconciling: Reconciling,
        credentials: CredentialWaits,
    ) -> None:
        self._pipeline = core.pipeline
        self._gate = core.gate
        self._ending = ending
        self._approvals = approvals
        self._external = external
        self._reconciling = reconciling
        self._credentials = credentials

    def park(self, call: Call) -> None:
        """The call ends elsewhere, waits for a credential or a person's answer, or its tool is asked whether the attempt had its effect."""
        reason = take_parked(call)
        if reason == "external":
            self._external.park(call)
            return
        self._gate.release(call)
        if reason == "credential":
            missing = attempt_of(call).doubt
            assert isinstance(missing, CredentialMissing), "the runner set it"
            if not self._credentials.enter_again(call):
                self._pipeline.end_with(call, not_believed(missing), self._ending.on_outcome_durable)
            return
        if reason == "input":
            needed = attempt_of(call).doubt
            assert isinstance(needed, InputNeeded), "the runner set it"
            self._approvals.ask_for_input(call, needed)
            return
        self._reconciling.begin(call, partial(self.end_in_doubt, call))

    def end_in_doubt(self, call: Call, reason: str = "") -> None:
        """End the call with what ended its attempt, as without a check. `reason`: why the check could not tell."""
        error = attempt_of(call).doubt
        assert error is not None, "the runner set it"
        if reason:
            call.add_metadata("reconcile", reason)
        self._pipeline.end_with(call, error, self._ending.on_outcome_durable)
