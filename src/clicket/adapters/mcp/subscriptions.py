"""`subscriptions/listen` (2026-07-28): one stream of notifications per request, until its client disconnects.

A stream reports changes of the tool list of its API key and thread: a tool's status changed, a dependency was met, a tool was
added. It also reports each task that the client named, as `tasks/get` shows it. A stream whose client reads too slowly is
closed, and the client has to open a new one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ServerEvent, SubscriptionBus, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_matches, event_to_notification
from pydantic import BaseModel

from clicket.adapters.mcp.request_context import (
    TASKS,
    AccessFor,
    RequestContext,
    SdkContext,
    missing_capability,
    read_context,
)
from clicket.adapters.mcp.tasks import task_detail
from clicket.model import Event

__all__ = ["SubscriptionHandler"]

_CHECK_TOOLS_EVERY = 5.0
_CHECK_TASK_EVERY = 1.0
_MAX_STREAMS = 1_024
_MAX_TASKS = 100
_MAX_BACKLOG = 1_024
_ENDED = ("completed", "failed", "cancelled")


class _Message(BaseModel):
    """A notification that the SDK has no type for."""

    method: str
    params: dict[str, Any]


Stream = MemoryObjectSendStream[_Message]


class SubscriptionHandler:
    """The handler. Changes that the program announces go to every stream, through `bus`."""

    def __init__(self, access_for: AccessFor, bus: SubscriptionBus) -> None:
        self._access_for = access_for
        self._bus = bus
        self._streams: set[Stream] = set()

    async def __call__(
        self, ctx: SdkContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        request = read_context(ctx, self._access_for)
        if len(self._streams) >= _MAX_STREAMS:
            raise MCPError(types.INTERNAL_ERROR, "Too many streams are open. Close one, or poll tools/list.")
        wanted = params.notifications
        uris = frozenset(wanted.resource_subscriptions or ())
        tasks = await _known_tasks(ctx, request)
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        stream, incoming = anyio.create_memory_object_stream[_Message](_MAX_BACKLOG)

        def send(method: str, body: Mapping[str, Any]) -> None:
            try:
                stream.send_nowait(_Message(method=method, params={**body, "_meta": meta}))
            except anyio.WouldBlock:  # its client reads too slowly
                self._streams.discard(stream)
                stream.close()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass  # the stream is ending

        def on_event(event: ServerEvent) -> None:
            if event_matches(wanted, uris, event):
                body = event_to_notification(event, {}).model_dump(by_alias=True, mode="json", exclude_none=True)
                params = {key: value for key, value in body.get("params", {}).items() if key != "_meta"}
                send(body["method"], params)

        send("notifications/subscriptions/acknowledged", {"notifications": _accepted(wanted, tasks)})
        unsubscribe = self._bus.subscribe(on_event)
        self._streams.add(stream)
        try:
            async with anyio.create_task_group() as group:
                if wanted.tools_list_changed:
                    group.start_soon(_watch_tools, request, on_event)
                for id in tasks or ():
                    group.start_soon(_watch_task, request, id, send)
                async for message in incoming:
                    await ctx.session.send_notification(message, related_request_id=ctx.request_id)  # type: ignore[arg-type]  # it is only dumped
                group.cancel_scope.cancel()
        finally:
            unsubscribe()
            self._streams.discard(stream)
            stream.close()
            incoming.close()
        return types.SubscriptionsListenResult(_meta=meta)

    def close(self) -> None:
        """End every stream in order: waiting notifications are sent, then the request is answered."""
        for stream in list(self._streams):
            stream.close()


async def _known_tasks(ctx: SdkContext, request: RequestContext) -> list[str] | None:
    """The tasks that the client named and its API key owns. None: it named none."""
    named = (ctx.params or {}).get("notifications", {}).get("taskIds")
    if named is None:
        return None
    if not request.has_tasks:
        raise missing_capability({"extensions": {TASKS: {}}}, f"taskIds need the client extension {TASKS}.")
    if not isinstance(named, list) or not all(isinstance(id, str) for id in named) or len(named) > _MAX_TASKS:
        raise MCPError(types.INVALID_PARAMS, f"taskIds must be a list of up to {_MAX_TASKS} ids.")
    known = []
    for id in dict.fromkeys(named):
        try:
            await task_detail(request, id)
            known.append(id)
        except MCPError:
            continue
    return known


def _accepted(wanted: types.SubscriptionFilter, tasks: list[str] | None) -> dict[str, Any]:
    filters = wanted.model_dump(by_alias=True, mode="json", exclude_none=True)
    accepted = {key: value for key, value in filters.items() if value}
    return accepted if tasks is None else {**accepted, "taskIds": tasks}


async def _watch_tools(request: RequestContext, on_event: Callable[[ServerEvent], None]) -> None:
    """Compare the tool list whenever a call of the thread ends in this process, and regularly because of other processes."""
    hub = request.runtime.hub(request.thread)
    known: list[list[str]] = [await hub.available()]

    async def check() -> bool:
        now = await hub.available()
        if now != known[0]:
            known[0] = now
            on_event(ToolsListChanged())
        return True

    await _check_on_events(
        request,
        lambda call, events: call.thread == request.thread and bool(events) and events[-1].state.is_terminal,
        check,
        _CHECK_TOOLS_EVERY,
    )


async def _watch_task(request: RequestContext, id: str, send: Callable[[str, Mapping[str, Any]], None]) -> None:
    """Send the task at first and after each change, until it has ended."""
    last: list[Any] = [None]

    async def check() -> bool:
        try:
            task = await task_detail(request, id)
        except MCPError:  # it has expired
            return False
        seen = (task["status"], task.get("inputRequests"))
        if seen != last[0]:
            last[0] = seen
            send("notifications/tasks", task)
        return task["status"] not in _ENDED

    if await check():
        await _check_on_events(request, lambda call, _: f"{call.id}.".startswith(f"{id}."), check, _CHECK_TASK_EVERY)


async def _check_on_events(
    request: RequestContext,
    concerns: Callable[[Any, Sequence[Event]], bool],
    check: Callable[[], Awaitable[bool]],
    every: float,
) -> None:
    """Run `check` after events of this process that concern it, and every `every` seconds, until it returns False."""
    changed = anyio.Event()

    def on_events(call: Any, events: Sequence[Event]) -> None:
        if concerns(call, events):
            changed.set()

    remove = request.runtime.observers.add(on_events)
    try:
        while True:
            with anyio.move_on_after(every):
                await changed.wait()
            changed = anyio.Event()
            if not await check():
                return
    finally:
        remove()
