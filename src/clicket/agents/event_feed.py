"""Live events of a thread for readers in this process. An event that waits for its commit holds back all events after it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from clicket.agents.agent_result import AgentEvent
from clicket.agents.pieces import PieceLog

__all__ = ["EventFeed", "FeedReader", "HeldEvents"]

_MAX_PENDING = 10_000


class FeedReader:
    """The queue of one reader. A slow reader loses deltas and progress, never an event that is on record."""

    __slots__ = ("_events", "_news")

    def __init__(self) -> None:
        self._events: deque[AgentEvent] = deque()
        self._news: asyncio.Event = asyncio.Event()

    def push(self, event: AgentEvent) -> None:
        if len(self._events) < _MAX_PENDING or (event.id and event.type != "delta"):
            self._events.append(event)
            self._news.set()

    def wake(self) -> None:
        self._news.set()

    def clear_news(self) -> None:
        """`news` waits for the next event. Events that are queued can still be taken."""
        self._news.clear()

    def take(self) -> list[AgentEvent]:
        """Remove and return all queued events."""
        self._news.clear()
        events = list(self._events)
        self._events.clear()
        return events

    async def news(self) -> None:
        await self._news.wait()


class HeldEvents:
    """Events that are published when the entry that they describe is durable."""

    __slots__ = ("events", "ready")

    def __init__(self, events: Sequence[AgentEvent], ready: bool) -> None:
        self.events: Sequence[AgentEvent] = events
        self.ready: bool = ready


class EventFeed:
    """The feed of one thread of an agent."""

    __slots__ = ("_queue", "pieces", "readers")

    def __init__(self) -> None:
        self.readers: list[FeedReader] = []
        self.pieces: PieceLog | None = None
        """Of the turn that runs, or ran last, if its pieces are stored."""
        self._queue: deque[HeldEvents] = deque()

    def publish(self, event: AgentEvent) -> None:
        """Pass an event to the readers now, or after the events that are held back."""
        if self._queue:
            self._queue.append(HeldEvents((event,), True))
        else:
            self._push((event,))

    def hold(self, events: Sequence[AgentEvent]) -> HeldEvents:
        held = HeldEvents(events, False)
        self._queue.append(held)
        return held

    def release(self, held: HeldEvents, durable: bool = True) -> None:
        """The entry is durable: publish its events. With `durable=False` it never will be, and they are dropped."""
        held.ready = True
        if not durable:
            held.events = ()
        while self._queue and self._queue[0].ready:
            self._push(self._queue.popleft().events)

    def _push(self, events: Sequence[AgentEvent]) -> None:
        for reader in self.readers:
            for event in events:
                reader.push(event)
