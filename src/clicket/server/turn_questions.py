"""Calls of a turn that wait for a person, as questions to the client of another protocol; and the client's answers, as decisions.

The rules of approvals hold here as everywhere: deciding needs the scope `approve`, the person who made a call does not approve it
(unless the policy allows it), and a decision is about the question that was shown.
"""

from __future__ import annotations

from typing import Any

from clicket.errors import Conflict
from clicket.model import Record
from clicket.model.codec import encode
from clicket.runtime.calls.approvals import approve_as, deny_as, respond_as
from clicket.runtime.runtime import Runtime
from clicket.server.authentication import Principal
from clicket.server.problems import Refused
from clicket.server.turn_follower import SubTask, WaitingCall
from clicket.server.turn_requests import Asked
from clicket.server.waits import as_answered, wait_number
from clicket.tools.question import question_of

__all__ = ["answer", "asked_from", "question_text", "tool_call_id"]

_MAX_SHOWN = 1_000


def tool_call_id(use_id: str, task: SubTask | None) -> str:
    """The id of a tool call. Models of different agents may give the same id to their calls."""
    return use_id if task is None else f"{task.id}/{use_id}"


def asked_from(waiting: WaitingCall) -> Asked:
    return Asked(
        id=waiting.record.id,
        thread=waiting.record.thread,
        hash=(waiting.record.approval or {}).get("hash", ""),
        use_id=tool_call_id(waiting.use_id, waiting.task) if waiting.use_id else "",
        task="" if waiting.task is None else waiting.task.id,
        number=waiting.wait[1],
    )


def question_text(record: Record) -> str:
    """What a person is asked, as text."""
    if record.waiting_for == "credential":
        return f"{record.tool} needs a credential of the caller before it can run."
    question = question_of(record.approval)
    if question is not None:
        return question.why
    why = str((record.approval or {}).get("why") or "")
    shown = encode(record.arguments).decode()
    cut = f"{shown[:_MAX_SHOWN]}…" if len(shown) > _MAX_SHOWN else shown
    return f"May {record.tool} run with {cut}?{f' {why}' if why else ''}"


async def answer(runtime: Runtime, principal: Principal, asked: Asked, payload: dict[str, Any] | None) -> bool:
    """Apply one answer: `{"approved": bool, "editedArgs"?: {…}, "response"?: …, "reason"?: "…"}`; None decides nothing. Repeating an
    answer changes nothing; one that contradicts the decision on record is a `Conflict`.

    False: there is nothing to decide here, and the call waits for another person.
    """
    record = await runtime.get(asked.id, thread=asked.thread)
    is_last = wait_number(record) <= asked.number
    if payload is None:
        return not is_last or record.waiting_for is None
    if is_last and record.waiting_for == "approval" and await _decided(runtime, principal, asked, payload):
        return True
    record = as_answered(await runtime.get(asked.id, thread=asked.thread), asked.number)
    given = (record.approval or {}).get("approved")
    if given is not payload["approved"]:
        how = "was not decided by a person" if given is None else f"was {'approved' if given else 'denied'} already"
        raise Conflict(f"call {asked.id!r} {how}. Nothing was changed.")
    return True


async def _decided(runtime: Runtime, principal: Principal, asked: Asked, payload: dict[str, Any]) -> bool:
    if not principal.may("approve"):
        raise Refused(
            "missing_scope",
            f"call {asked.id!r} waits for approval, and this key lacks the scope approve. Another person decides it "
            "(POST /calls/{id}/approve); resume without a payload to wait for that.",
        )
    approver = principal.approver
    reason = payload.get("reason", "")
    if "response" in payload:
        return await respond_as(
            runtime, asked.id, payload["response"], approver, thread=asked.thread, reason=reason, seen=asked.hash
        )
    if payload["approved"]:
        return await approve_as(
            runtime,
            asked.id,
            approver,
            thread=asked.thread,
            reason=reason,
            seen=asked.hash,
            arguments=payload.get("editedArgs"),
        )
    return await deny_as(runtime, asked.id, approver, thread=asked.thread, reason=reason, seen=asked.hash)
