"""A clicket call as an activity of Temporal. Needs the extra `temporal`.

    from clicket.adapters.temporal import activity_of

    worker = Worker(client, task_queue="tools", workflows=[Order], activities=[activity_of(rt)])

    # in a workflow
    await workflow.execute_activity("clicket_call", args=["charge", {"cents": 500}], heartbeat_timeout=timedelta(seconds=10), …)

The call's id is made of the namespace, the workflow's run and the activity. If Temporal tries the activity again, because its
worker died or a timeout ran out, the new try follows the same call: its outcome is returned, and the tool runs again only if
clicket's own rules allow that. The processes must share a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from clicket.errors import ClicketError, UsageError
from clicket.model import ToolResult
from clicket.model.ports import Caller

try:
    from temporalio import activity
    from temporalio.client import WorkflowExecutionStatus
    from temporalio.exceptions import ApplicationError
except ModuleNotFoundError as missing:
    if missing.name is None or not missing.name.startswith("temporalio"):
        raise
    raise UsageError(
        "clicket.adapters.temporal needs the package 'temporalio', which is not installed. "
        "Install it with: pip install 'clicket[temporal]'."
    ) from None

__all__ = ["activity_of", "call_id"]

_MAX_SILENCE = 10.0
"""Seconds between two heartbeats, at most."""
_TRANSIENT = frozenset({"store_unavailable", "queue_full", "closed", "fenced"})
"""Errors after which another try may find the call, or make it: none of them is the outcome of the call."""


def activity_of(runtime: Caller, tool: str | None = None, *, name: str | None = None) -> Callable[..., Awaitable[Any]]:
    """An activity that makes calls with an open runtime, for `Worker(activities=[…])`.

    Without `tool` it is named `clicket_call` and takes the tool's name and its arguments; with one it has the tool's name and takes
    the arguments alone. It returns the call's output. A call that does not complete raises an `ApplicationError` whose `type` is the
    error's code, and which Temporal does not retry: the outcome would be the same.
    """

    async def call_any(tool: str, arguments: dict[str, Any]) -> Any:
        return await _call(runtime, tool, arguments)

    async def call_one(arguments: dict[str, Any]) -> Any:
        assert tool is not None
        return await _call(runtime, tool, arguments)

    body: Callable[..., Awaitable[Any]] = call_any if tool is None else call_one
    made: Callable[..., Awaitable[Any]] = activity.defn(name=name or tool or "clicket_call")(body)
    return made


def call_id(info: activity.Info) -> str:
    """The id of the call that an activity makes: the same for each of its tries."""
    run = info.workflow_run_id or info.activity_run_id
    return f"temporal/{info.namespace}/{run}/{info.activity_id}"


async def _call(runtime: Caller, tool: str, arguments: Mapping[str, Any]) -> Any:
    info = activity.info()
    id = call_id(info)
    thread = info.workflow_id or info.activity_id
    beats = asyncio.create_task(_send_heartbeats(id, info))
    try:
        # Shielded: a cancel must not leave it open whether the call was made.
        making = asyncio.ensure_future(runtime.submit(tool, arguments, id=id, thread=thread))
        try:
            handle = await asyncio.shield(making)
            result = await handle.result()
        except asyncio.CancelledError:
            if await _is_cancelled(info):
                handle = await making
                await handle.cancel()
                await handle.result()
            raise
    except ClicketError as error:
        raise _failure(error.message, error.code, retryable=error.code in _TRANSIENT) from error
    finally:
        beats.cancel()
    return _output(result)


async def _is_cancelled(info: activity.Info) -> bool:
    """Is the call wanted no more? Other reasons (the worker stops, a timeout) are followed by another try, which finds this call."""
    details = activity.cancellation_details()
    if details is None or details.cancel_requested or not details.not_found or info.workflow_id is None:
        return details is not None and details.cancel_requested
    # The server does not know this try any more: its workflow has ended, or it gave the activity to another worker.
    try:
        workflow = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
        return (await workflow.describe()).status is not WorkflowExecutionStatus.RUNNING
    except Exception:  # the server cannot say: another try may come
        return False


async def _send_heartbeats(id: str, info: activity.Info) -> None:
    limit = info.heartbeat_timeout.total_seconds() if info.heartbeat_timeout else _MAX_SILENCE
    while True:
        activity.heartbeat({"call_id": id})
        await asyncio.sleep(min(limit / 3, _MAX_SILENCE))


def _output(result: ToolResult) -> Any:
    if result.success:
        return result.output
    error = result.error
    code, message = (error.code, error.message) if error is not None else ("tool_error", "the call did not complete")
    raise _failure(message, code, {"call_id": result.call_id, "state": str(result.state)})


def _failure(message: str, code: str, *details: Any, retryable: bool = False) -> ApplicationError:
    return ApplicationError(message, *details, type=code, non_retryable=not retryable)
