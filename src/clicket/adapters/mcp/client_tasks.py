"""The tasks extension of another server: a call that it runs on as a task, which we follow by its id.

A notification about a task decides nothing. It only ends the pause before the task is read again, so a lost or forged one costs time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import mcp_types as types
from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, NotificationBinding, ResultClaim
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from clicket.adapters.mcp.request_context import TASKS

__all__ = [
    "CreatedTask",
    "TaskDetail",
    "TaskFollowers",
    "TasksExtension",
    "cancel_task",
    "get_task",
    "listen_to_task",
    "read_requests",
    "update_task",
]

_TIMEOUT = 30.0
"""Seconds for one request about a task."""
MAX_ID = 1_024
_MAX_REQUESTS = 20
"""Open input requests of one task or result."""
_requests: TypeAdapter[dict[str, types.InputRequest]] = TypeAdapter(dict[str, types.InputRequest])

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]


class CreatedTask(types.Result):
    """The result of `tools/call` if the server goes on with it as a task."""

    result_type: Literal["task"] = "task"
    task_id: str = Field(min_length=1, max_length=MAX_ID)
    poll_interval_ms: float | None = None


class TaskDetail(types.Result):
    """A task as `tasks/get` shows it."""

    model_config = ConfigDict(extra="ignore")

    result_type: str | None = None
    task_id: str
    status: Status
    status_message: str | None = None
    poll_interval_ms: float | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    asked: dict[str, Any] | None = Field(default=None, alias="inputRequests")


class _TaskParams(types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any]


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams
    name_param = "taskId"


class _CancelTask(types.Request[_TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams
    name_param = "taskId"


class _UpdateTask(types.Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams
    name_param = "taskId"


class _TaskNotification(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")

    task_id: str


class TaskFollowers:
    """The tasks of one server that are followed here. Each has an event, which a notification about the task sets."""

    def __init__(self) -> None:
        self._followed: dict[str, asyncio.Event] = {}

    def follow(self, id: str) -> asyncio.Event:
        return self._followed.setdefault(id, asyncio.Event())

    def leave(self, id: str) -> None:
        self._followed.pop(id, None)

    async def on_notification(self, notification: _TaskNotification) -> None:
        """A notification about a task that is not followed here is ignored."""
        changed = self._followed.get(notification.task_id)
        if changed is not None:
            changed.set()


class TasksExtension(ClientExtension):
    """Declares that we can follow tasks. `RemoteCall` reads the results itself, so nothing is resolved here."""

    identifier = TASKS

    def __init__(self, followers: TaskFollowers) -> None:
        self._followers = followers

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=_not_here),)

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return (
            NotificationBinding(
                method="notifications/tasks", params_type=_TaskNotification, handler=self._followers.on_notification
            ),
        )


async def _not_here(created: CreatedTask, context: ClaimContext) -> types.CallToolResult:
    raise AssertionError("tasks are followed by their calls")


async def get_task(client: Client, id: str) -> TaskDetail:
    return await client.session.send_request(_GetTask(params=_TaskParams(task_id=id)), TaskDetail, _TIMEOUT)


async def update_task(client: Client, id: str, responses: dict[str, Any]) -> None:
    params = _UpdateParams(task_id=id, input_responses=responses)
    await client.session.send_request(_UpdateTask(params=params), types.EmptyResult, _TIMEOUT)


async def cancel_task(client: Client, id: str) -> None:
    await client.session.send_request(_CancelTask(params=_TaskParams(task_id=id)), types.EmptyResult, _TIMEOUT)


async def listen_to_task(client: Client, id: str) -> None:
    """Have the server send notifications about the task, until this is cancelled or the server ends it. A server may refuse."""
    wanted = types.SubscriptionFilter.model_validate({"taskIds": [id]})
    request = types.SubscriptionsListenRequest(params=types.SubscriptionsListenRequestParams(notifications=wanted))
    try:
        await client.session.send_request(request, types.SubscriptionsListenResult)
    except (MCPError, ValidationError, RuntimeError, ValueError):
        return  # the task is polled


def read_requests(asked: Any) -> dict[str, types.InputRequest]:
    """Input requests as the server wrote them; `ValueError` if they cannot be used."""
    if not isinstance(asked, dict) or len(asked) > _MAX_REQUESTS or any(len(key) > 256 for key in asked):
        raise ValueError(f"it asks for more than {_MAX_REQUESTS} things at once, or under names that are too long")
    try:
        return _requests.validate_python(asked, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
