"""`subscriptions/listen` (2026-07-28): one stream per request, that tells of changes until its client leaves.

Of the list of tools: for the stream's own key and thread, when a status moved, a dependency was met, a tool was added. Of tasks:
each named one of the key's own, whole, as `tasks/get` would tell it. Nothing is kept for a stream that is not read: one that
falls too far behind ends, and its client asks anew.
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

from clicket.mcp.tasks import detail
from clicket.mcp.visit import TASKS, Access, Context, Visit, missing_capability, visit
from clicket.model import Event

__all__ = ["Listen"]

_LOOK_EVERY = 5.0
_TASK_LOOK_EVERY = 1.0
_MAX_STREAMS = 1_024
_MAX_TASKS = 100
_MAX_BACKLOG = 1_024
_ENDED = ("completed", "failed", "cancelled")


class _Message(BaseModel):
    """A notification that the SDK has no type for."""

    method: str
    params: dict[str, Any]


Stream = MemoryObjectSendStream[_Message]


class Listen:
    """The handler. Changes that the server's owner announces go to every stream, through `bus`."""

    def __init__(self, access: Access, bus: SubscriptionBus) -> None:
        self._access = access
        self._bus = bus
        self._streams: set[Stream] = set()

    async def __call__(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        who = visit(ctx, self._access)
        if len(self._streams) >= _MAX_STREAMS:
            raise MCPError(
                types.INTERNAL_ERROR, "Too many streams are open. Close one, or ask tools/list now and then."
            )
        wanted = params.notifications
        uris = frozenset(wanted.resource_subscriptions or ())
        tasks = await _known_tasks(ctx, who)
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        stream, incoming = anyio.create_memory_object_stream[_Message](_MAX_BACKLOG)

        def tell(method: str, body: Mapping[str, Any]) -> None:
            try:
                stream.send_nowait(_Message(method=method, params={**body, "_meta": meta}))
            except anyio.WouldBlock:  # its client does not read
                self._streams.discard(stream)
                stream.close()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass  # it is ending

        def heard(event: ServerEvent) -> None:
            if event_matches(wanted, uris, event):
                told = event_to_notification(event, {}).model_dump(by_alias=True, mode="json", exclude_none=True)
                tell(told["method"], {key: value for key, value in told.get("params", {}).items() if key != "_meta"})

        tell("notifications/subscriptions/acknowledged", {"notifications": _honoured(wanted, tasks)})
        leave = self._bus.subscribe(heard)
        self._streams.add(stream)
        try:
            async with anyio.create_task_group() as group:
                if wanted.tools_list_changed:
                    group.start_soon(_watch_tools, who, heard)
                for id in tasks or ():
                    group.start_soon(_watch_task, who, id, tell)
                async for message in incoming:
                    await ctx.session.send_notification(message, related_request_id=ctx.request_id)  # type: ignore[arg-type]  # it is only dumped
                group.cancel_scope.cancel()
        finally:
            leave()
            self._streams.discard(stream)
            stream.close()
            incoming.close()
        return types.SubscriptionsListenResult(_meta=meta)

    def close(self) -> None:
        """End every stream in good order: what is waiting is sent, then the request is answered."""
        for stream in list(self._streams):
            stream.close()


async def _known_tasks(ctx: Context, who: Visit) -> list[str] | None:
    """The tasks that a stream will tell of: those it names, and the key has. None: it names none."""
    named = (ctx.params or {}).get("notifications", {}).get("taskIds")
    if named is None:
        return None
    if not who.has_tasks:
        raise missing_capability({"extensions": {TASKS: {}}}, f"taskIds need the client extension {TASKS}.")
    if not isinstance(named, list) or not all(isinstance(id, str) for id in named) or len(named) > _MAX_TASKS:
        raise MCPError(types.INVALID_PARAMS, f"taskIds must be a list of up to {_MAX_TASKS} ids.")
    known = []
    for id in dict.fromkeys(named):
        try:
            await detail(who, id)
            known.append(id)
        except MCPError:
            continue
    return known


def _honoured(wanted: types.SubscriptionFilter, tasks: list[str] | None) -> dict[str, Any]:
    said = wanted.model_dump(by_alias=True, mode="json", exclude_none=True)
    honoured = {key: value for key, value in said.items() if value}
    return honoured if tasks is None else {**honoured, "taskIds": tasks}


async def _watch_tools(who: Visit, heard: Callable[[ServerEvent], None]) -> None:
    """Look at the list whenever a call of the thread ended here, and now and then for what others did."""
    hub = who.runtime.hub(who.thread)
    known: list[list[str]] = [await hub.available()]

    async def look() -> bool:
        now = await hub.available()
        if now != known[0]:
            known[0] = now
            heard(ToolsListChanged())
        return True

    await _whenever(
        who,
        lambda call, events: call.thread == who.thread and bool(events) and events[-1].state.is_terminal,
        look,
        _LOOK_EVERY,
    )


async def _watch_task(who: Visit, id: str, tell: Callable[[str, Mapping[str, Any]], None]) -> None:
    """Tell how the task stands, at first and whenever it changed, up to its end."""
    last: list[Any] = [None]

    async def look() -> bool:
        try:
            task = await detail(who, id)
        except MCPError:  # it has expired
            return False
        seen = (task["status"], task.get("inputRequests"))
        if seen != last[0]:
            last[0] = seen
            tell("notifications/tasks", task)
        return task["status"] not in _ENDED

    if await look():
        await _whenever(who, lambda call, _: f"{call.id}.".startswith(f"{id}."), look, _TASK_LOOK_EVERY)


async def _whenever(
    who: Visit, matters: Callable[[Any, Sequence[Event]], bool], look: Callable[[], Awaitable[bool]], every: float
) -> None:
    """Look when something happened here, and every so often for what other processes did; until there is nothing to see."""
    news = anyio.Event()

    def heard(call: Any, events: Sequence[Event]) -> None:
        if matters(call, events):
            news.set()

    remove = who.runtime.observers.add(heard)
    try:
        while True:
            with anyio.move_on_after(every):
                await news.wait()
            news = anyio.Event()
            if not await look():
                return
    finally:
        remove()
