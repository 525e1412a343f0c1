"""Calls that wait, as interrupts; and a client's answers to interrupts, as decisions of the person behind its key.

The rules of approvals hold here as everywhere: deciding needs the scope `approve`, the person who made a call does not approve it
(unless the policy allows it), and a decision is about the question that was shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clicket.errors import Conflict, InvalidInput
from clicket.model import Record
from clicket.model.codec import encode
from clicket.model.time_text import utc_text
from clicket.runtime.calls.approvals import approve_as, deny_as, respond_as
from clicket.runtime.runtime import Runtime
from clicket.server.ag_ui.run_input import ResumeEntry
from clicket.server.ag_ui.translator import tool_call_id
from clicket.server.ag_ui.wire import Event
from clicket.server.authentication import Principal
from clicket.server.problems import Refused
from clicket.server.turn_follower import WaitingCall
from clicket.server.turn_requests import Asked
from clicket.server.waits import as_answered, as_asked, wait_number
from clicket.tools.question import question_of

__all__ = ["asked_from", "check_resume", "decide", "interrupt_of", "interrupt_text"]

_MAX_SHOWN = 1_000
_PAYLOAD = frozenset({"approved", "editedArgs", "reason", "response"})
_WHOLE = "(body)"


def asked_from(waiting: WaitingCall) -> Asked:
    return Asked(
        id=waiting.record.id,
        thread=waiting.record.thread,
        hash=(waiting.record.approval or {}).get("hash", ""),
        use_id=tool_call_id(waiting.use_id, waiting.task) if waiting.use_id else "",
        task="" if waiting.task is None else waiting.task.id,
        number=waiting.wait[1],
    )


def interrupt_text(record: Record) -> str:
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


def interrupt_of(runtime: Runtime, record: Record, asked: Asked) -> Event:
    """The question that was asked, also if the call has got other ones since."""
    record = as_asked(record, asked.number)
    approval = record.approval or {}
    credential = record.waiting_for == "credential"
    question = question_of(record.approval)
    ours = {
        "callId": record.id,
        "thread": record.thread,
        "tool": record.tool,
        "arguments": record.arguments,
        "hash": asked.hash,
        "why": approval.get("why", ""),
        "approvers": approval.get("approvers", 1),
    }
    if question is not None:
        ours["question"] = {
            "source": question.source,
            "message": question.message,
            "schema": question.schema,
            "url": question.url,
        }
    made: Event = {
        "id": asked.question_id,
        "reason": "clicket:credential" if credential else "tool_call" if asked.use_id else "confirmation",
        "message": interrupt_text(record),
        "metadata": {"clicket": ours},
    }
    if asked.use_id:
        made["toolCallId"] = asked.use_id
    if asked.task:
        made["subagentRunId"] = asked.task
    if approval.get("deadline"):
        made["expiresAt"] = utc_text(approval["deadline"])
    if not credential:
        made["responseSchema"] = _response_schema(runtime, record)
    return made


def _response_schema(runtime: Runtime, record: Record) -> Event:
    fields: Event = {"approved": {"type": "boolean"}, "reason": {"type": "string"}}
    question = question_of(record.approval)
    if question is not None:
        text = "false: the question is declined, and the tool goes on without an answer."
        fields["approved"]["description"] = text
        if question.schema is not None:
            text = "The answer to the tool's question; the tool goes on with it. Required if approved is true."
            fields["response"] = {"description": text, **question.schema}
    elif (record.approval or {}).get("approvers", 1) == 1:
        tool = runtime.host.installed(record.tool)
        schema = {"type": "object"} if tool is None else dict(tool.input_schema)
        fields["editedArgs"] = {**schema, "description": "The whole new arguments. They are not merged."}
        fields["response"] = {"description": "The result, in the tool's place: then the tool does not run."}
    return {"type": "object", "properties": fields, "required": ["approved"], "additionalProperties": False}


def check_resume(entries: Sequence[ResumeEntry], asked: dict[str, Asked], open_ids: frozenset[str]) -> None:
    """Refuse answers to other interrupts than those of the thread, and answers that leave one open."""
    ids = [entry.interrupt_id for entry in entries]
    if len(set(ids)) != len(ids):
        raise InvalidInput([{"path": "/resume", "message": "an interrupt is answered twice"}], whole=_WHOLE)
    unknown = [id for id in ids if id not in asked]
    if unknown:
        raise Refused("not_found", f"this thread has no interrupt {unknown[0]!r:.200}. Nothing was decided.")
    missing = sorted(open_ids - set(ids))
    if missing:
        raise Conflict(
            f"the thread waits for an answer to {', '.join(missing)}, too. Answer every interrupt in `resume`."
        )
    for place, entry in enumerate(entries):
        _check_payload(entry, f"/resume/{place}/payload")


def _check_payload(entry: ResumeEntry, path: str) -> None:
    payload = entry.payload
    if entry.status == "cancelled" or payload is None:
        return
    if not isinstance(payload, dict) or not isinstance(payload.get("approved"), bool):
        text = 'must be an object with "approved": true or false'
    elif unknown := sorted(set(payload) - _PAYLOAD):
        text = f"{unknown[0]!r:.60} is not known here. Known: {', '.join(sorted(_PAYLOAD))}"
    elif not isinstance(payload.get("editedArgs", {}), dict):
        text = "editedArgs must be an object"
    elif not isinstance(payload.get("reason", ""), str):
        text = "reason must be a text"
    elif not payload["approved"] and ("editedArgs" in payload or "response" in payload):
        text = "a denial has neither editedArgs nor response"
    elif "editedArgs" in payload and "response" in payload:
        text = "editedArgs are for the tool, and with a response the tool does not run. Send one of them"
    else:
        return
    raise InvalidInput([{"path": path, "message": text}], whole=_WHOLE)


async def decide(runtime: Runtime, principal: Principal, entry: ResumeEntry, asked: Asked) -> bool:
    """Apply one answer. Repeating an answer changes nothing; one that contradicts the decision on record is a `Conflict`.

    False: there is nothing to decide here, and the call waits for another person.
    """
    record = await runtime.get(asked.id, thread=asked.thread)
    is_last = wait_number(record) <= asked.number
    if entry.status == "cancelled":
        if is_last and not record.state.is_terminal:
            await runtime.cancel(asked.id, thread=asked.thread, reason="the user abandoned it")
        return True
    payload: dict[str, Any] | None = entry.payload
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
