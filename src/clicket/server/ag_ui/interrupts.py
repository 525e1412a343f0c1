"""Calls that wait, as interrupts; and a client's answers to interrupts, as decisions of the person behind its key."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.errors import Conflict, InvalidInput
from clicket.model import Record
from clicket.model.time_text import utc_text
from clicket.runtime.runtime import Runtime
from clicket.server.ag_ui.run_input import ResumeEntry
from clicket.server.ag_ui.wire import Event
from clicket.server.authentication import Principal
from clicket.server.problems import Refused
from clicket.server.turn_questions import answer, question_text
from clicket.server.turn_requests import Asked
from clicket.server.waits import as_asked, wait_number
from clicket.tools.question import question_of

__all__ = ["check_resume", "decide", "interrupt_of"]

_PAYLOAD = frozenset({"approved", "editedArgs", "reason", "response"})
_WHOLE = "(body)"


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
        "message": question_text(record),
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
    """Apply one answer, as `answer` does; or cancel the call, if the user abandoned it."""
    if entry.status != "cancelled":
        return await answer(runtime, principal, asked, entry.payload)
    record = await runtime.get(asked.id, thread=asked.thread)
    if wait_number(record) <= asked.number and not record.state.is_terminal:
        await runtime.cancel(asked.id, thread=asked.thread, reason="the user abandoned it")
    return True
