"""The owner's side of an approval: asks, waits without a slot, and applies the decision. `decisions.py` takes the decision, in any process.

A grant may answer the question before it is written: then question and answer are one commit, and no person is asked.

The question and the decision are in the journal, so both survive restarts and cross processes. A decision may come with other
arguments. The process that takes the decision checks them like the first ones, and the process that runs the call checks them again:
the whole schema, and the policy's denials. Both versions stay on record; the id belongs to the first one.
"""

from __future__ import annotations

import logging
from typing import Any

from clicket.engine.call.decided import AfterDecision, after_decision
from clicket.engine.core import Core
from clicket.engine.executors import describe
from clicket.engine.executors.inputs import EXPIRED, asked_for_input, stage_question, take_answer
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.live_call import Call, Question
from clicket.engine.people.grants import granted_decision
from clicket.engine.people.questions import ask_for_approval, question_after_crash
from clicket.engine.records.arguments import LOST
from clicket.errors import ApprovalDenied, ClicketError, InvalidInput, PermissionDenied
from clicket.kernel import State
from clicket.model import Event, ToolError, read
from clicket.tools import output_check
from clicket.tools.question import InputNeeded

__all__ = ["Approvals", "edit_of", "unfit"]

logger = logging.getLogger("clicket.engine")


class Approvals:
    def __init__(self, core: Core, ending: Ending) -> None:
        self._journal = core.journal
        self._pipeline = core.pipeline
        self._policy = core.policy
        self._live = core.live
        self._timers = core.timers
        self._ending = ending
        self._caching = core.caching
        self._arguments = core.arguments
        self._grants = core.grants
        self._signals = core.signals
        self._inputs = core.inputs
        self._spawn = core.spawn

    def ask(self, call: Call) -> None:
        """Stage the policy's question. A grant may answer it; else the call is kept, and waits for a person."""
        self._live.add(call)
        self._ask(call, call.question, "run", call.reason, call.approval_timeout)
        self._spawn(self._look_for_grant(call))

    def ask_again(self, call: Call, why: str) -> None:
        """Ask whether to run a call again whose process died during an attempt. No grant answers that."""
        self._ask(call, question_after_crash(self._policy), "recovery", why, self._policy.approval_timeout)

    def ask_for_input(self, call: Call, needed: InputNeeded) -> None:
        """The body has ended with a question to a person. No grant and no policy answers it."""
        entry = call.entry
        data = {"attempt": entry.attempts, "error": None, "delay": None, "waiting_for": "approval"}
        self._journal.advance(entry, State.RETRYING, data)
        stage_question(self._journal, call, needed.question, needed.timeout)
        if needed.timeout is not None:
            self._timers.wait(call, needed.timeout, "approval")
        self._journal.commit(entry)

    def expire_input(self, call: Call) -> None:
        """No answer came to a question of the call's tool: the tool gets that as the answer."""
        self._journal.record(call.entry, "approval_given", dict(EXPIRED))
        self.apply(call, EXPIRED)
        self._journal.commit(call.entry)

    async def _look_for_grant(self, call: Call) -> None:
        grant = None
        try:
            grant = await self._grants.use(call)
        except ClicketError as error:
            logger.warning("call %s: grants cannot be read, so a person is asked: %s", call.id, error)
        except Exception:
            logger.exception("call %s: grants cannot be used, so a person is asked", call.id)
        if call.ending or call.failure is not None or call.entry.waiting_for != "approval":
            return  # it ended meanwhile, or the runtime closes; the question is staged, so it runs nowhere without an answer
        if grant is None:
            self._inputs.go_on(call)
            return
        if call.entry.is_new:
            self._answer_at_once(call, granted_decision(grant))
        else:
            await self._answer_unless_answered(call, granted_decision(grant))

    def _answer_at_once(self, call: Call, decision: dict[str, Any]) -> None:
        """The question and its answer are one commit."""
        self._journal.record(call.entry, "approval_given", decision)
        self.apply(call, decision)

    async def _answer_unless_answered(self, call: Call, decision: dict[str, Any]) -> None:
        """The question is on record, so a person may have answered it by now: the first answer counts."""
        try:
            await self._signals.write_own(call.entry, "approval_given", decision)
        except ClicketError as error:
            logger.warning("call %s: the grant could not answer its question, so a person is asked: %s", call.id, error)

    def _ask(self, call: Call, question: Question, purpose: str, reason: str, timeout: float | None) -> None:
        ask_for_approval(self._journal, call, question, purpose=purpose, reason=reason, timeout=timeout)
        if timeout is not None:
            self._timers.wait(call, timeout, "approval")

    def wait_on(self, call: Call, left: float | None) -> None:
        """Wait for the answer to a recorded question; `left`: seconds until the wait times out."""
        self._journal.wait_for(call.entry, "approval")
        if left is not None:
            self._timers.wait(call, left, "approval")

    def take(self, call: Call, event: Event) -> None:
        """Another part, or another process, wrote a decision. It is applied once enough people have approved."""
        entry = call.entry
        if call.ending or entry.waiting_for != "approval" or read(entry.id, entry.events).waiting_for == "approval":
            return
        self.apply(call, event.data)
        self._journal.commit(entry)

    def apply(self, call: Call, decision: dict[str, Any]) -> None:
        """Apply a recorded decision: resume the call, fail it if it was denied, or end it with a person's answer. An answer to a question
        of the tool, whatever it is, is for the tool."""
        verdict = after_decision(decision, tool_asked=asked_for_input(call.entry.events))
        self._journal.wait_for(call.entry, None)
        self._timers.end_wait(call)
        if verdict is AfterDecision.DENY:
            by = decision.get("by") or "an approver"
            why = f": {decision['reason']}" if decision.get("reason") else ""
            denied = ApprovalDenied(f"{by} denied the call{why}. Ask again with other arguments, or do without.")
            self._fail(call, describe(denied, retryable=False))
        elif verdict is AfterDecision.ANSWER:
            self._end_with_answer(call, decision)
        elif verdict is AfterDecision.TELL_TOOL and take_answer(call, decision):
            pass  # its body has waited for it, and goes on
        elif verdict is not AfterDecision.EDIT or self._take_edit(call, decision):
            call.is_allowed = True
            self._inputs.go_on(call)

    def _end_with_answer(self, call: Call, decision: dict[str, Any]) -> None:
        """End the call with a person's answer, which is never cached, if it fits the output schema of the tool as it is here."""
        output = decision.get("output")
        check = output_check(call.required_tool())
        problems = [] if check is None else check(output)
        if problems:
            error = InvalidInput(problems, "Answer as the tool's output schema says.", whole="(output)")
            self._fail(call, unfit(error, decision, "the answer that {} gave"))
            return
        self._pipeline.validate.look_for_secrets(call)  # a process that took the call over has not
        self._caching.exclude(call)
        by = decision.get("by") or "a person"
        self._spawn(self._pipeline.answer(call, output, by, self._ending.on_outcome_durable))

    def check_edit(self, call: Call) -> None:
        """Raise `PermissionDenied` unless this process's policy allows the edited arguments, too: the one that took the decision
        may have another policy."""
        if not self._policy.is_open and not call.entry.internal:
            self._pipeline.authorize.check(
                call.tool,
                call.entry.tool,
                call.given,
                thread=call.thread,
                caller=call.caller,
                scopes=call.origin.scopes,
            )

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


def unfit(error: ClicketError, decision: dict[str, Any], what: str = "the arguments as {} changed them") -> ToolError:
    """Why a call does not run with the arguments, or end with the answer, that came with a decision."""
    details = {"problems": error.details["problems"]} if "problems" in error.details else {}
    text = f"{what.format(decision.get('by') or 'an approver')} cannot be used: {error.message}"
    return ToolError(code=error.code, message=text, type=type(error).__name__, details=details)
