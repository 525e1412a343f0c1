"""The question of a task that waits for a person: the form that a client shows, and the decision that comes back.

It asks for an approval; or the task's tool asks, on behalf of another server perhaps, and its question is passed on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from clicket.adapters.mcp.content import elicit
from clicket.adapters.mcp.request_context import RequestContext
from clicket.adapters.mcp.task_state import TaskState
from clicket.errors import Conflict, InvalidInput, UsageError
from clicket.model.printable import marked
from clicket.runtime.calls.approvals import approve_as, deny_as, respond_as
from clicket.tools.question import InputQuestion, question_of

__all__ = ["approval_request", "decide", "may_decide"]

_APPROVAL = {
    "properties": {
        "approve": {"type": "boolean", "description": "true: run it; false: refuse it"},
        "reason": {"type": "string", "description": "why, for the record"},
    },
    "required": ["approve"],
}


def may_decide(request: RequestContext, task: TaskState) -> bool:
    """May the person at the client decide? The task's call was made with the same key, so only if the policy allows self-approval."""
    call = task.current
    return request.may_approve and (not call.caller or (call.approval or {}).get("self_approval") is True)


def approval_request(task: TaskState) -> dict[str, Any]:
    """`inputRequests` of a task whose call waits for approval."""
    call = task.current
    question = question_of(call.approval)
    if question is not None:
        return {_approval_key(task): _passed_on(question)}
    arguments = marked(msgspec.json.encode(call.arguments).decode()[:1_000])
    what = f"Tool '{marked(call.tool)}' asks for approval. Arguments: {arguments}"
    return {_approval_key(task): elicit(what, _APPROVAL)}


async def decide(request: RequestContext, task: TaskState, given: Mapping[str, Any]) -> None:
    """Approve or deny the call with the client's answer. Without an answer to its question the call goes on waiting."""
    question = question_of(task.current.approval)
    if not may_decide(request, task):
        text = "This key may not approve this call; a key of another person with the scope approve must decide."
        if question is not None:
            text = "This key may not answer the tool's question: it lacks the scope approve."
        raise MCPError(types.INVALID_PARAMS, text)
    answer = given.get(_approval_key(task))
    if not isinstance(answer, Mapping):
        return
    form = answer.get("content")
    content = form if isinstance(form, Mapping) else {}
    if question is not None:
        await _answer(request, task, question, answer.get("action"), content)
        return
    action = answer.get("action")
    approve = content.get("approve")
    if action == "accept" and approve is True:
        write: Callable[..., Awaitable[bool]] = approve_as
    elif action == "decline" or (action == "accept" and approve is False):
        write = deny_as
    else:
        return  # the form was closed without a choice: the call goes on waiting
    call = task.current
    with suppress(Conflict):  # the call asks for another approval by now: the next `tasks/get` shows it
        seen = (call.approval or {}).get("hash", "")
        reason = str(content.get("reason") or "")
        await write(request.runtime, call.id, request.approver, thread=call.thread, reason=reason, seen=seen)


def _passed_on(question: InputQuestion) -> dict[str, Any]:
    """The question of the call's tool, with its source."""
    message = marked(question.why, lines=True)
    if question.schema is None:
        params = {"mode": "url", "message": message, "url": question.url, "elicitationId": question.key}
        return {"method": "elicitation/create", "params": params}
    return elicit(message, question.schema)


async def _answer(
    request: RequestContext, task: TaskState, question: InputQuestion, action: Any, content: Mapping[str, Any]
) -> None:
    """Answer the question of the call's tool. An answer that does not fit leaves the call waiting, and the client gets the reason."""
    call = task.current
    runtime = request.runtime
    approver = request.approver
    place = {"thread": call.thread, "seen": (call.approval or {}).get("hash", "")}
    try:
        with suppress(Conflict):  # the call asks something else by now
            if action == "decline":
                await deny_as(runtime, call.id, approver, **place)
            elif action == "accept" and question.schema is None:
                await approve_as(runtime, call.id, approver, **place)
            elif action == "accept":
                await respond_as(runtime, call.id, dict(content), approver, **place)
    except (InvalidInput, UsageError) as error:
        raise MCPError(types.INVALID_PARAMS, error.message) from None


def _approval_key(task: TaskState) -> str:
    """Different for each question of a task."""
    asked = task.current.approval or {}
    if question_of(asked) is not None:
        return f"input.{asked.get('hash', '')[:16]}"
    return "approval" if task.round == 1 else f"approval.{task.round}"
