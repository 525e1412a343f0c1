"""What is told live to readers in this process. Order is kept: what is on its way to the store holds back what comes after it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from clicket.agents.values import AgentEvent

__all__ = ["Feed", "Held", "Reader"]

_BACKLOG = 10_000


class Reader:
    """One who listens. A reader that lags loses pieces of answers and progress, never what has an id."""

    __slots__ = ("_events", "_news")

    def __init__(self) -> None:
        self._events: deque[AgentEvent] = deque()
        self._news: asyncio.Event = asyncio.Event()

    def push(self, event: AgentEvent) -> None:
        if len(self._events) < _BACKLOG or event.id:
            self._events.append(event)
            self._news.set()

    def wake(self) -> None:
        self._news.set()

    def rest(self) -> None:
        """What has come so far is no news any more; it can still be taken."""
        self._news.clear()

    def take(self) -> list[AgentEvent]:
        """What has come since."""
        self._news.clear()
        events = list(self._events)
        self._events.clear()
        return events

    async def news(self) -> None:
        await self._news.wait()


class Held:
    """Events that are told when what they tell of is durable."""

    __slots__ = ("events", "ready")

    def __init__(self, events: Sequence[AgentEvent], ready: bool) -> None:
        self.events: Sequence[AgentEvent] = events
        self.ready: bool = ready


class Feed:
    """Of one thread of an agent."""

    __slots__ = ("_line", "readers")

    def __init__(self) -> None:
        self.readers: list[Reader] = []
        self._line: deque[Held] = deque()

    def tell(self, event: AgentEvent) -> None:
        """Now, or after what is held back."""
        if self._line:
            self._line.append(Held((event,), True))
        else:
            self._push((event,))

    def hold(self, events: Sequence[AgentEvent]) -> Held:
        held = Held(events, False)
        self._line.append(held)
        return held

    def release(self, held: Held, durable: bool = True) -> None:
        """What they tell of is durable; or never will be, and nobody hears of it."""
        held.ready = True
        if not durable:
            held.events = ()
        while self._line and self._line[0].ready:
            self._push(self._line.popleft().events)

    def _push(self, events: Sequence[AgentEvent]) -> None:
        for reader in self.readers:
            for event in events:
                reader.push(event)
