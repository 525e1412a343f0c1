"""Questions to people: the event that asks for an approval."""

from __future__ import annotations

from typing import Any

from clicket.engine.journal import Journal
from clicket.engine.live_call import Call, Question
from clicket.engine.stages import Policy
from clicket.model.codec import clean
from clicket.model.ports import mark
from clicket.safety.vault import hide_text

__all__ = ["ask_for_approval", "question_after_crash"]


def question_after_crash(policy: Policy) -> Question:
    """Whether to run a call again whose attempt may have had its effect: no rule asks it, the policy's approvers answer it."""
    return Question("", policy.approvers, policy.self_approval)


def ask_for_approval(
    journal: Journal, call: Call, question: Question, *, purpose: str, reason: str, timeout: float | None
) -> None:
    """Stage the question. From its next commit on the call waits for the answer, in this process or another. The question has all that
    the decision depends on, because a process with another policy may take it."""
    entry = call.entry
    at = journal.stamp(entry)
    journal.wait_for(entry, "approval")
    data: dict[str, Any] = {"timeout": timeout, "purpose": purpose, "reason": hide_text(clean(reason), call.secrets)}
    if timeout is not None:
        data["deadline"] = at + timeout
    if question.rule:
        data["rule"] = question.rule
    if question.approvers > 1:
        data["approvers"] = question.approvers
    if question.self_approval:
        data["self_approval"] = True
    journal.record(entry, "approval_requested", {**data, **mark(journal.clock)}, at)
