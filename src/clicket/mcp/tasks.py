"""The tasks extension: a task is a call under another name, and a handle that outlives connections, servers and crashes.

| call | task |
|---|---|
| pending, initializing, running, streaming, retrying | working |
| waiting for approval | input_required: the approval is a question, for keys that may approve |
| completed with `need(...)` | input_required |
| completed, failed, timeout | completed; the last two with `isError` |
| failed with `ProtocolError` | failed |
| cancelled | cancelled |

The task's id is its first call's. When a tool asked questions, the next round's call has the same id with `.2`, `.3` …, so that
whoever looks finds the chain. Answers that are not complete yet lie in the store as a paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from clicket.errors import ClicketError, NotFound, UsageError
from clicket.kernel import State
from clicket.mcp.content import elicit
from clicket.mcp.listing import find_tool
from clicket.mcp.questions import Round, fits
from clicket.mcp.results import protocol_error, questions_of, tool_result
from clicket.mcp.visit import TASKS, Access, Context, Visit, missing_capability, visit
from clicket.model import Record, ToolResult, result_of

__all__ = ["TaskParams", "Tasks", "UpdateParams", "created"]

POLL_MS = 1_000
_KIND = "mcp-task"
_MAX_ROUNDS = 1_000
_TRIES = 20
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


class _Draft(msgspec.Struct, frozen=True):
    """What is known of a task's open questions: answers so far, in which round; and whether nobody wants them any more."""

    round: int
    answers: dict[str, Any] = {}
    cancelled: bool = False


class _Task(msgspec.Struct):
    """A task as the store has it: its first call, the call of its present round, and what that one asks."""

    first: Record
    now: Record
    result: ToolResult | None
    round: int
    questions: dict[str, Any]
    cancelled: bool = False


class Tasks:
    """The handlers of `tasks/get`, `tasks/update` and `tasks/cancel`. A key finds its own tasks, and no others."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        who = self._visit(ctx, params.task_id)
        return await self.detail(who, params.task_id)

    async def detail(self, who: Visit, id: str) -> dict[str, Any]:
        """A task as `tasks/get` answers, and as `notifications/tasks` tells."""
        return _detail(await _look(who, id), who)

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        who = self._visit(ctx, params.task_id)
        task = await _look(who, params.task_id)
        if not task.now.state.is_terminal:
            await who.runtime.cancel(task.now.id, thread=task.now.thread, reason="the client cancelled the task")
        elif task.questions:
            await _change(who, task, lambda draft: msgspec.structs.replace(draft, cancelled=True))
        return {}

    async def update(self, ctx: Context, params: UpdateParams) -> dict[str, Any]:
        who = self._visit(ctx, params.task_id)
        task = await _look(who, params.task_id)
        if task.now.waiting_for == "approval":
            await _decide(who, task, params.input_responses)
        elif task.questions:
            given = {
                key: answer
                for key, answer in params.input_responses.items()
                if key in task.questions and fits(answer, task.questions[key])
            }
            draft = await _change(
                who, task, lambda draft: msgspec.structs.replace(draft, answers={**draft.answers, **given})
            )
            await _go_on(who, task, draft)
        return {}

    def _visit(self, ctx: Context, id: str) -> Visit:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        who = visit(ctx, self._access)
        if not who.has_tasks:
            raise missing_capability({"extensions": {TASKS: {}}}, f"{ctx.method} needs the client extension {TASKS}.")
        headers = getattr(ctx.request, "headers", None)
        if headers is not None and (headers.get("mcp-name") or "").strip() != id:
            raise MCPError(types.HEADER_MISMATCH, "The Mcp-Name header must be the taskId.")
        return who


def created(record: Record, who: Visit) -> dict[str, Any]:
    """`CreateTaskResult`. The record was read back from the store: the task is durable."""
    return {"resultType": "task", **_base(record, record, "working", who)}


# Finding out how a task stands.


async def _look(who: Visit, id: str) -> _Task:
    first = now = await _record(who, id, None)
    if first is None or now is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no task {id!r}. It may have expired, or belong to another key.")
    for number in range(1, _MAX_ROUNDS):
        asked, result = {}, None
        if now.state.is_terminal:
            result = await _result(who, now)
            asked = questions_of(result, find_tool(who.runtime, now.tool))
        task = _Task(first, now, result, number, asked)
        if not asked:
            return task
        after = await _record(who, f"{id}.{number + 1}", first.thread)
        if after is None:
            return await _with_draft(who, task)
        now = after
    raise MCPError(types.INTERNAL_ERROR, f"Task {id!r} asked {_MAX_ROUNDS} times.")


async def _record(who: Visit, id: str, thread: str | None) -> Record | None:
    try:
        return await who.runtime.get(id, thread=thread)
    except NotFound:
        return None
    except UsageError:  # the id was chosen by the client, and used in two threads: the request's one is meant
        return await who.runtime.get(id, thread=who.thread)


async def _result(who: Visit, record: Record) -> ToolResult:
    if record.truncated:
        return await (await who.runtime.handle(record.id, thread=record.thread)).result()
    return result_of(record)


async def _with_draft(who: Visit, task: _Task) -> _Task:
    """The questions that are still open. All answered, and no next round: whoever was to start it is gone."""
    draft, _ = await _draft(who, task)
    open_ = {key: question for key, question in task.questions.items() if key not in draft.answers}
    if draft.cancelled:
        return msgspec.structs.replace(task, questions=open_ or task.questions, cancelled=True)
    if open_:
        return msgspec.structs.replace(task, questions=open_)
    await _go_on(who, task, draft)
    return await _look(who, task.first.id)


# Answers.


async def _draft(who: Visit, task: _Task) -> tuple[_Draft, int]:
    paper = await who.runtime.engine.store.paper(_KIND, _key(task))
    if paper is None:
        return _Draft(task.round), 0
    try:
        draft = msgspec.json.decode(paper.body, type=_Draft)
    except msgspec.MsgspecError:
        draft = _Draft(task.round)
    # A draft of an earlier round was left by somebody who started the next one and died.
    return draft if draft.round == task.round else _Draft(task.round), paper.version


async def _change(who: Visit, task: _Task, change: Any) -> _Draft:
    for _ in range(_TRIES):
        draft, version = await _draft(who, task)
        changed: _Draft = change(draft)
        if await who.runtime.engine.store.put_paper(_KIND, _key(task), msgspec.json.encode(changed), version):
            return changed
    raise MCPError(types.INTERNAL_ERROR, "Too many answers at once; send yours again.")


def _key(task: _Task) -> str:
    return f"{task.first.caller}/{task.first.thread}/{task.first.id}"


async def _go_on(who: Visit, task: _Task, draft: _Draft) -> None:
    """Start the next round once every question is answered. Its id follows from the task's: it is started once."""
    asked = questions_of(task.result, find_tool(who.runtime, task.now.tool)) if task.result is not None else {}
    if draft.cancelled or not asked or not all(key in draft.answers for key in asked):
        return
    before = (task.now.metadata.get("mcp") or {}).get("answers") or {}
    after = Round(task.round + 1, {**before, **draft.answers})
    try:
        await who.runtime.submit(
            task.first.tool,
            task.first.arguments,
            thread=task.first.thread,
            id=after.call_id(task.first.id),
            metadata=after.metadata,
        )
    except ClicketError as error:
        raise MCPError(types.INTERNAL_ERROR, error.message) from error
    await who.runtime.engine.store.delete_paper(_KIND, _key(task))


async def _decide(who: Visit, task: _Task, given: Mapping[str, Any]) -> None:
    answer = given.get(_approval_key(task))
    if not who.may_approve:
        raise MCPError(types.INVALID_PARAMS, "This key may not approve calls; somebody with scope approve must decide.")
    if not isinstance(answer, Mapping) or answer.get("action") not in ("accept", "decline"):
        return  # no answer, or a form that was closed: the call goes on waiting
    content = answer.get("content")
    said = content if isinstance(content, Mapping) else {}
    decision = {"thread": task.now.thread, "by": task.now.caller or "mcp", "reason": str(said.get("reason") or "")}
    if answer["action"] == "accept" and said.get("approve") is True:
        await who.runtime.approve(task.now.id, **decision)
    elif answer["action"] == "decline" or said.get("approve") is False:
        await who.runtime.deny(task.now.id, **decision)


def _approval_key(task: _Task) -> str:
    return "approval" if task.round == 1 else f"approval.{task.round}"


# Telling.


def _detail(task: _Task, who: Visit) -> dict[str, Any]:
    now, first = task.now, task.first
    if task.cancelled or now.state is State.CANCELLED:
        return _base(first, now, "cancelled", who, message=now.error.message if now.error else None)
    if task.questions:
        return {**_base(first, now, "input_required", who), "inputRequests": task.questions}
    if task.result is not None:
        tool = find_tool(who.runtime, now.tool)
        wrong = protocol_error(task.result, tool)
        if wrong is not None:
            error = {"code": wrong.code, "message": wrong.message}
            return {**_base(first, now, "failed", who, message=wrong.message), "error": error}
        told = tool_result(task.result, tool, modern=who.modern)
        return {
            **_base(first, now, "completed", who),
            "result": told.model_dump(by_alias=True, mode="json", exclude_none=True),
        }
    if now.waiting_for == "approval" and who.may_approve:
        what = f"Tool {now.tool!r} asks for approval. Arguments: {msgspec.json.encode(now.arguments).decode()[:1_000]}"
        return {
            **_base(first, now, "input_required", who, message="waiting for approval"),
            "inputRequests": {_approval_key(task): elicit(what, _APPROVAL)},
        }
    return _base(first, now, "working", who, message=_message(now))


def _message(record: Record) -> str:
    if record.waiting_for == "approval":
        return "waiting for approval by a person whose key may approve"
    said = (record.progress or {}).get("status")
    return f"{record.state}: {said}" if said else str(record.state)


def _base(first: Record, now: Record, status: str, who: Visit, *, message: str | None = None) -> dict[str, Any]:
    kept = who.runtime.settings.retention
    return {
        "taskId": first.id,
        "status": status,
        **({"statusMessage": message} if message else {}),
        "createdAt": _instant(first.created_at),
        "lastUpdatedAt": _instant(now.updated_at or now.created_at),
        "ttlMs": max(int(kept * 1_000), 1),
        "pollIntervalMs": POLL_MS,
    }


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
