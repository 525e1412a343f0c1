"""Durable events of all calls as one stream. A reader that is too slow misses events, and gets a `Gap` in their place."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from clicket.engine.journal import Observers
from clicket.model import Event
from clicket.system.bridge import fulfil

__all__ = ["CallEvent", "EventFilter", "Gap", "Subscription"]


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events a subscription wants; None: all."""

    id: str | None = None
    thread: str | None = None
    tool: str | None = None
    caller: str | None = None
    types: frozenset[str] | None = None
    states: frozenset[str] | None = None
    """Only events after which the call is in one of these states."""


class CallEvent(Event, frozen=True, gc=False):
    """An event with the thread, tool and caller of its call: an id is unique only for one caller and thread."""

    thread: str
    tool: str
    caller: str


class Gap(msgspec.Struct, frozen=True):
    """Replaces events that the reader missed because it was too slow, or reconnected too late."""

    missed: int | None
    """The number of events; None: not known."""


class Subscription:
    """An async iterator of `CallEvent` and `Gap`. It starts when it is made. After `close`, the end of `async with` or the end of the
    runtime it yields the pending events and ends."""

    def __init__(self, observers: Observers, filter: EventFilter, caller: str | None, max_pending: int) -> None:
        self._filter = filter
        self._caller = caller
        self._max_pending = max_pending
        self._pending: deque[CallEvent] = deque()
        self._missed = 0
        self._news: asyncio.Future[None] | None = None
        self._closed = False
        self._remove = observers.add(self._on_events, on_close=self.close)

    def _on_events(self, entry: Any, events: Sequence[Event]) -> None:
        wanted = self._filter
        if (
            (self._caller is not None and entry.caller != self._caller)
            or (wanted.caller is not None and entry.caller != wanted.caller)
            or (wanted.thread is not None and entry.thread != wanted.thread)
            or (wanted.tool is not None and entry.tool != wanted.tool)
            or (wanted.id is not None and entry.id != wanted.id)
        ):
            return
        for event in events:
            if wanted.types is not None and event.type not in wanted.types:
                continue
            if wanted.states is not None and event.state not in wanted.states:
                continue
            if len(self._pending) >= self._max_pending:
                self._pending.popleft()
                self._missed += 1
            self._pending.append(
                CallEvent(
                    event.call_id,
                    event.seq,
                    event.at,
                    event.type,
                    event.state,
                    event.data,
                    entry.thread,
                    entry.tool,
                    entry.caller,
                )
            )
        if self._news is not None:
            fulfil(self._news)

    def close(self) -> None:
        self._remove()
        self._closed = True
        if self._news is not None:
            fulfil(self._news)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CallEvent | Gap:
        while True:
            if self._missed:
                missed, self._missed = self._missed, 0
                return Gap(missed)
            if self._pending:
                return self._pending.popleft()
            if self._closed:
                raise StopAsyncIteration
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            finally:
                self._news = None
