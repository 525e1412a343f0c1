"""The tasks extension: a task is a call under another name, and a handle that outlives connections, servers and crashes.

| call | task |
|---|---|
| pending, initializing, running, streaming, retrying | working |
| waiting for approval | input_required; the approval is a question to keys that may approve, and to no others |
| completed with `need(...)` | input_required |
| completed, failed, timeout | completed; the last two with `isError` |
| failed with `ProtocolError`; arguments that were lost | failed |
| cancelled | cancelled |
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from clicket.errors import Conflict
from clicket.kernel import State
from clicket.mcp.chain import Chain, answer, drop, look_up
from clicket.mcp.content import elicit
from clicket.mcp.listing import find_tool
from clicket.mcp.pictures import pictures_of
from clicket.mcp.results import protocol_error, tool_result
from clicket.mcp.sweep import Sweep
from clicket.mcp.visit import TASKS, Access, Context, Visit, missing_capability, visit
from clicket.model import Record

__all__ = ["TaskParams", "Tasks", "UpdateParams", "created", "detail"]

POLL_MS = 1_000
_APPROVAL = {
    "properties": {
        "approve": {"type": "boolean", "description": "true: run it; false: refuse it"},
        "reason": {"type": "string", "description": "why, for the record"},
    },
    "required": ["approve"],
}


class TaskParams(types.RequestParams):
    """Params of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


class Tasks:
    """The handlers of `tasks/get`, `tasks/update` and `tasks/cancel`. A key finds its own tasks, and no others."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._sweep = Sweep()

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        return await detail(self._visit(ctx, params.task_id), params.task_id)

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        who = self._visit(ctx, params.task_id)
        chain = await look_up(who, params.task_id)
        if not chain.now.state.is_terminal:
            await who.runtime.cancel(chain.now.id, thread=chain.now.thread, reason="the client cancelled the task")
        elif chain.questions:
            await drop(who, chain)
        return {}

    async def update(self, ctx: Context, params: UpdateParams) -> dict[str, Any]:
        who = self._visit(ctx, params.task_id)
        chain = await look_up(who, params.task_id)
        if chain.now.waiting_for == "approval":
            await _decide(who, chain, params.input_responses)
        elif chain.questions:
            await answer(who, chain, params.input_responses)
        return {}

    def _visit(self, ctx: Context, id: str) -> Visit:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        who = visit(ctx, self._access)
        if not who.has_tasks:
            raise missing_capability({"extensions": {TASKS: {}}}, f"{ctx.method} needs the client extension {TASKS}.")
        headers = getattr(ctx.request, "headers", None)
        if headers is not None and headers.get("mcp-name") != id:
            raise MCPError(types.HEADER_MISMATCH, "The Mcp-Name header must be the taskId.")
        self._sweep.now_and_then(who.runtime)
        return who


async def _decide(who: Visit, chain: Chain, given: Mapping[str, Any]) -> None:
    if not who.may_approve:
        raise MCPError(types.INVALID_PARAMS, "This key may not approve calls; somebody with scope approve must decide.")
    said = given.get(_approval_key(chain))
    if not isinstance(said, Mapping):
        return
    told = said.get("content")
    content = told if isinstance(told, Mapping) else {}
    now, why = chain.now, str(content.get("reason") or "")
    seen = (now.approval or {}).get("hash", "")
    action, approve = said.get("action"), content.get("approve")
    # A form that was closed without a choice is no answer: the call goes on waiting.
    with suppress(Conflict):  # another question is open by now: it is asked when the task is looked at
        await _decided(who, now, why, seen, action, approve)


async def _decided(who: Visit, now: Record, why: str, seen: str, action: Any, approve: Any) -> None:
    if action == "accept" and approve is True:
        await who.runtime.approve(now.id, thread=now.thread, reason=why, seen=seen)
    elif action == "decline" or (action == "accept" and approve is False):
        await who.runtime.deny(now.id, thread=now.thread, reason=why, seen=seen)


def _approval_key(chain: Chain) -> str:
    return "approval" if chain.round == 1 else f"approval.{chain.round}"


# Telling how a task stands.


def created(record: Record, who: Visit) -> dict[str, Any]:
    """`CreateTaskResult`. The record was read back from the store: the task is durable."""
    return {"resultType": "task", **_base(record, record, "working", who)}


async def detail(who: Visit, id: str) -> dict[str, Any]:
    """A task as `tasks/get` answers, and as `notifications/tasks` tells."""
    chain = await look_up(who, id)
    first, now = chain.first, chain.now
    if chain.cancelled or now.state is State.CANCELLED:
        return _base(first, now, "cancelled", who, message=now.error.message if now.error else None)
    if chain.lost:
        return _failed(chain, who, types.INTERNAL_ERROR, chain.lost)
    if chain.questions:
        return {**_base(first, now, "input_required", who), "inputRequests": chain.questions}
    if chain.result is not None:
        tool = find_tool(who.runtime, now.tool)
        wrong = protocol_error(chain.result, tool)
        if wrong is not None:
            return _failed(chain, who, wrong.code, wrong.message)
        pictures = await pictures_of(who.runtime, chain.result, tool)
        told = tool_result(chain.result, tool, modern=who.modern, pictures=pictures)
        result = told.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {**_base(first, now, "completed", who), "result": result}
    if now.waiting_for == "approval":
        asked = {}
        message = "waiting for approval by a person whose key has the scope approve; this key cannot decide"
        if who.may_approve:
            message = "waiting for approval"
            what = (
                f"Tool {now.tool!r} asks for approval. Arguments: {msgspec.json.encode(now.arguments).decode()[:1_000]}"
            )
            asked = {_approval_key(chain): elicit(what, _APPROVAL)}
        return {**_base(first, now, "input_required", who, message=message), "inputRequests": asked}
    return _base(first, now, "working", who, message=_message(now))


def _failed(chain: Chain, who: Visit, number: int, message: str) -> dict[str, Any]:
    base = _base(chain.first, chain.now, "failed", who, message=message)
    return {**base, "error": {"code": number, "message": message}}


def _message(record: Record) -> str:
    said = (record.progress or {}).get("status")
    return f"{record.state}: {said}" if said else str(record.state)


def _base(first: Record, now: Record, status: str, who: Visit, *, message: str | None = None) -> dict[str, Any]:
    return {
        "taskId": first.id,
        "status": status,
        **({"statusMessage": message} if message else {}),
        "createdAt": _instant(first.created_at),
        "lastUpdatedAt": _instant(now.updated_at or now.created_at),
        "ttlMs": max(int(who.runtime.settings.retention * 1_000), 1),
        "pollIntervalMs": POLL_MS,
    }


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
