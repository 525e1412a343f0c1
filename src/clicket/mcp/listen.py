"""`subscriptions/listen` (2026-07-28): one stream per request, that tells when the thread's list of tools changed.

A stream tells of changes for its own key and thread: statuses that moved, dependencies that were met, tools that were added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from clicket.mcp.visit import Access, Context, Visit, visit
from clicket.model import Event

__all__ = ["Listen"]

_LOOK_EVERY = 5.0
_MAX_STREAMS = 1_024


class Listen:
    """The handler. Changes that the server's owner announces go to every stream, through `bus`."""

    def __init__(self, access: Access, bus: SubscriptionBus) -> None:
        self._access = access
        self._bus = bus
        self._streams: set[ListenHandler] = set()

    async def __call__(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        who = visit(ctx, self._access)
        if len(self._streams) >= _MAX_STREAMS:
            raise MCPError(
                types.INTERNAL_ERROR, "Too many streams are open. Close one, or ask tools/list now and then."
            )
        line = _Line(self._bus)
        stream = ListenHandler(line)
        self._streams.add(stream)
        try:
            async with anyio.create_task_group() as group:
                if params.notifications.tools_list_changed:
                    group.start_soon(_watch, who, line)
                result = await stream(ctx, params)
                group.cancel_scope.cancel()
        finally:
            self._streams.discard(stream)
        return result

    def close(self) -> None:
        """End every stream in good order."""
        for stream in list(self._streams):
            stream.close()


class _Line:
    """A bus for one stream: what everybody hears, and what is for this stream alone."""

    def __init__(self, shared: SubscriptionBus) -> None:
        self._shared = shared
        self._own = InMemorySubscriptionBus()

    async def publish(self, event: ServerEvent) -> None:
        await self._own.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        leave = (self._own.subscribe(listener), self._shared.subscribe(listener))

        def unsubscribe() -> None:
            for each in leave:
                each()

        return unsubscribe


async def _watch(who: Visit, line: _Line) -> None:
    """Look at the list whenever a call of the thread ended here, and now and then for what others did."""
    news = anyio.Event()
    engine = who.runtime.engine

    def heard(call: Any, events: Sequence[Event]) -> None:
        if call.thread == who.thread and events and events[-1].state.is_terminal:
            news.set()

    engine.journal.listeners.append(heard)
    hub = who.runtime.hub(who.thread)
    try:
        known = await hub.available()
        while True:
            with anyio.move_on_after(_LOOK_EVERY):
                await news.wait()
            news = anyio.Event()
            now = await hub.available()
            if now != known:
                known = now
                await line.publish(ToolsListChanged())
    finally:
        engine.journal.listeners.remove(heard)
