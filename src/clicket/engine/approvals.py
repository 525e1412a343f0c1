"""The owner's side of an approval: asks, waits without a slot, and applies the decision. `decisions.py` takes the decision, in any process.

The question and the decision are in the journal, so both survive restarts and cross processes. A decision may come with other
arguments. The process that takes the decision checks them like the first ones, and the process that runs the call checks them again:
the whole schema, and the policy's denials. Both versions stay on record; the id belongs to the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clicket.call import Call
from clicket.engine.arguments import LOST, ArgumentsOnRecord
from clicket.engine.caching import Caching
from clicket.engine.ending import Ending
from clicket.engine.questions import ask_for_approval
from clicket.engine.timers import WaitTimers
from clicket.errors import ApprovalDenied, ClicketError, InvalidInput, PermissionDenied
from clicket.execution import describe
from clicket.journal import Journal
from clicket.kernel import State
from clicket.model import ToolError
from clicket.pipeline import Pipeline, Policy

__all__ = ["Approvals", "edit_of", "unfit"]


class Approvals:
    """`resume(call)`: the call may run."""

    def __init__(
        self,
        journal: Journal,
        pipeline: Pipeline,
        policy: Policy,
        timers: WaitTimers,
        ending: Ending,
        caching: Caching,
        arguments: ArgumentsOnRecord,
        *,
        resume: Callable[[Call], None],
    ) -> None:
        self._journal = journal
        self._pipeline = pipeline
        self._policy = policy
        self._timers = timers
        self._ending = ending
        self._caching = caching
        self._arguments = arguments
        self._resume = resume

    def ask(self, call: Call) -> None:
        """Stage the policy's question, and wait for its answer."""
        self._ask(call, "run", call.reason, call.approval_timeout)

    def ask_again(self, call: Call, why: str) -> None:
        """Ask whether to run a call again whose process died during an attempt."""
        self._ask(call, "recovery", why, self._policy.approval_timeout)

    def _ask(self, call: Call, purpose: str, reason: str, timeout: float | None) -> None:
        ask_for_approval(self._journal, call, purpose=purpose, reason=reason, timeout=timeout)
        if timeout is not None:
            self._timers.wait(call, timeout, "approval")

    def wait_on(self, call: Call, left: float | None) -> None:
        """Wait for the answer to a recorded question; `left`: seconds until the wait times out."""
        self._journal.wait_for(call.entry, "approval")
        if left is not None:
            self._timers.wait(call, left, "approval")

    def apply(self, call: Call, decision: dict[str, Any]) -> None:
        """Apply a recorded decision: resume the call, or fail it if it was denied."""
        self._journal.wait_for(call.entry, None)
        self._timers.end_wait(call)
        if decision.get("approved") is not True:
            by, why = decision.get("by") or "an approver", f": {decision['reason']}" if decision.get("reason") else ""
            denied = ApprovalDenied(f"{by} denied the call{why}. Ask again with other arguments, or do without.")
            self._fail(call, describe(denied, retryable=False))
        elif "arguments" not in decision or self._take_edit(call, decision):
            self._resume(call)

    def check_edit(self, call: Call) -> None:
        """Raise `PermissionDenied` unless this process's policy allows the edited arguments, too: the one that took the decision
        may have another policy."""
        if not self._policy.is_open:
            self._pipeline.authorize.check(
                call.tool, call.entry.tool, call.given,
                thread=call.thread, caller=call.caller, scopes=call.origin.scopes,
            )  # fmt: skip

    def _take_edit(self, call: Call, decision: dict[str, Any]) -> bool:
        """Give the call the arguments of the decision, if they fit."""
        arguments = self._arguments.edited_in(decision, call)
        if arguments is None:
            self._fail(call, LOST)
            return False
        try:
            self._pipeline.validate.with_arguments(
                call, arguments
            )  # first: it finds the secrets that errors must not show
            self.check_edit(call)
        except (InvalidInput, PermissionDenied) as error:
            self._fail(call, unfit(error, decision))
            return False
        self._caching.fit(call)
        if call.entry.state is not State.PENDING:
            self._caching.exclude(call)
        return True

    def _fail(self, call: Call, error: ToolError) -> None:
        self._pipeline.fail(call, error, self._ending.on_outcome_durable)


def edit_of(call: Call) -> dict[str, Any] | None:
    """The decision whose arguments the call has now; None: they are the first ones."""
    decisions = (event.data for event in reversed(call.entry.events) if event.type == "approval_given")
    return next((decision for decision in decisions if "arguments" in decision), None)


def unfit(error: ClicketError, decision: dict[str, Any]) -> ToolError:
    """Why a call does not run with the arguments that came with a decision."""
    details = {"problems": error.details["problems"]} if "problems" in error.details else {}
    text = f"the arguments as {decision.get('by') or 'an approver'} changed them cannot be used: {error.message}"
    return ToolError(code=error.code, message=text, type=type(error).__name__, details=details)
