"""The tasks extension: a task is a call that a client follows by id. It outlives connections, servers and crashes.

| call | task |
|---|---|
| pending, initializing, running, streaming, retrying | working |
| waiting for a credential | input_required; its caller gets a link, if the client opens links |
| waiting for approval | input_required; keys that may approve get an input request, the others get none |
| completed with `need(...)` | input_required |
| completed, failed, timeout | completed; the last two with `isError` |
| failed with `ProtocolError`; arguments lost with their process | failed |
| cancelled | cancelled |
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from clicket.adapters.mcp.approvals import approval_request, decide, may_decide
from clicket.adapters.mcp.credential_requests import credential_requests, waits_for_credential
from clicket.adapters.mcp.file_content import files_of, with_data
from clicket.adapters.mcp.request_context import (
    TASKS,
    AccessFor,
    RequestContext,
    SdkContext,
    missing_capability,
    read_context,
)
from clicket.adapters.mcp.results import protocol_error, tool_result
from clicket.adapters.mcp.task_state import TaskState, TaskSweep, add_answers, cancel_answers, load_task
from clicket.kernel import State
from clicket.model import Record
from clicket.model.ports.caller import Handle
from clicket.tools.question import question_of

__all__ = ["TaskParams", "Tasks", "UpdateParams", "task_created", "task_detail"]

POLL_MS = 1_000


class TaskParams(types.RequestParams):
    """Params of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


class Tasks:
    """The handlers of `tasks/get`, `tasks/update` and `tasks/cancel`. An API key finds only its own tasks."""

    def __init__(self, access_for: AccessFor) -> None:
        self._access_for = access_for
        self._sweep = TaskSweep()

    async def get(self, ctx: SdkContext, params: TaskParams) -> dict[str, Any]:
        return await task_detail(self._context(ctx, params.task_id), params.task_id)

    async def cancel(self, ctx: SdkContext, params: TaskParams) -> dict[str, Any]:
        request = self._context(ctx, params.task_id)
        task = await load_task(request, params.task_id)
        if not task.current.state.is_terminal:
            await request.runtime.cancel(
                task.current.id, thread=task.current.thread, reason="the client cancelled the task"
            )
        elif task.unanswered:
            await cancel_answers(request, task)
        return {}

    async def update(self, ctx: SdkContext, params: UpdateParams) -> dict[str, Any]:
        request = self._context(ctx, params.task_id)
        task = await load_task(request, params.task_id)
        if task.current.waiting_for == "approval":
            await decide(request, task, params.input_responses)
        elif task.unanswered:
            await add_answers(request, task, params.input_responses)
        return {}

    def _context(self, ctx: SdkContext, id: str) -> RequestContext:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        request = read_context(ctx, self._access_for)
        if not request.has_tasks:
            raise missing_capability({"extensions": {TASKS: {}}}, f"{ctx.method} needs the client extension {TASKS}.")
        headers = getattr(ctx.request, "headers", None)
        if headers is not None and headers.get("mcp-name") != id:
            raise MCPError(types.HEADER_MISMATCH, "The Mcp-Name header must be the taskId.")
        self._sweep.sweep_soon(request.runtime)
        return request


# Tasks as the protocol describes them.


async def task_created(request: RequestContext, handle: Handle) -> dict[str, Any]:
    """`CreateTaskResult`. The record is read back from the store: the task is durable."""
    record = await request.runtime.get(handle.id, thread=handle.thread)
    return {"resultType": "task", **_base(record, record, "working", request)}


async def task_detail(request: RequestContext, id: str) -> dict[str, Any]:
    """A task as `tasks/get` and `notifications/tasks` show it."""
    task = await load_task(request, id)
    first, current = task.first, task.current
    if task.cancelled or current.state is State.CANCELLED:
        return _base(first, current, "cancelled", request, message=current.error.message if current.error else None)
    if task.lost:
        return _failed(task, request, types.INTERNAL_ERROR, task.lost)
    if task.unanswered:
        return {**_base(first, current, "input_required", request), "inputRequests": task.unanswered}
    if task.result is not None:
        tool = request.runtime.registry.get(current.tool)
        wrong = protocol_error(task.result, tool)
        if wrong is not None:
            return _failed(task, request, wrong.code, wrong.message)
        files = await files_of(request.runtime, task.result)
        whole = await with_data(request.runtime, task.result)
        shown = tool_result(whole, tool, modern=request.modern, files=files)
        result = shown.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {**_base(first, current, "completed", request), "result": result}
    if current.waiting_for == "approval":
        asked = {}
        asks = question_of(current.approval) is not None
        message = "waiting for approval by a key of another person with the scope approve; this key cannot decide"
        if asks:
            message = "waiting for an answer to a question of the tool; this key lacks the scope approve to give it"
        if may_decide(request, task):
            message = "waiting for an answer" if asks else "waiting for approval"
            asked = approval_request(task)
        return {**_base(first, current, "input_required", request, message=message), "inputRequests": asked}
    if waits_for_credential(current):
        asked = await credential_requests(request, current)
        message = f"waiting for a credential: {', '.join((current.credential or {})['providers'])}"
        return {**_base(first, current, "input_required", request, message=message), "inputRequests": asked}
    return _base(first, current, "working", request, message=_message(current))


def _failed(task: TaskState, request: RequestContext, code: int, message: str) -> dict[str, Any]:
    base = _base(task.first, task.current, "failed", request, message=message)
    return {**base, "error": {"code": code, "message": message}}


def _message(record: Record) -> str:
    status = (record.progress or {}).get("status")
    return f"{record.state}: {status}" if status else str(record.state)


def _base(
    first: Record, current: Record, status: str, request: RequestContext, *, message: str | None = None
) -> dict[str, Any]:
    return {
        "taskId": first.id,
        "status": status,
        **({"statusMessage": message} if message else {}),
        "createdAt": iso_time(first.created_at),
        "lastUpdatedAt": iso_time(current.updated_at or current.created_at),
        "ttlMs": max(int(request.runtime.settings.retention.age * 1_000), 1),
        "pollIntervalMs": POLL_MS,
    }


def iso_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
