"""The events of a thread as one stream: first the recorded ones, then live ones, each exactly once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any

from clicket.agents.agent_result import AgentEvent
from clicket.agents.entries import entry_of, events_of
from clicket.agents.event_feed import EventFeed, FeedReader
from clicket.agents.threads import Threads, turn_id
from clicket.agents.turn import Turn
from clicket.agents.turn_on_record import turn_on_record
from clicket.errors import ClicketError, UsageError
from clicket.model import Event
from clicket.model.ids import is_of_turn
from clicket.model.ports import sleep

__all__ = ["EventStreams", "position_of"]

Position = tuple[int, int, int]
_POLL_EVERY = 1.0
_LAST = ("final", "error")
_PROGRESS = frozenset({"progress", "output", "approval_requested", "approval_given"})


def position_of(id: str) -> Position:
    """Turn, entry and number of an event's id; an empty id is the beginning."""
    if not id:
        return 0, 0, 0
    turn, _, rest = id.partition("-")
    entry, _, number = rest.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in (turn, entry, number)):
        raise UsageError(f"{id!r:.100} is not an id of an event; it looks like 3-7.1.")
    return int(turn), int(entry), int(number)


class EventStreams:
    """The feeds of an agent's threads. While there are readers, the progress of the running turns' tool calls is published too."""

    def __init__(self, turns: dict[tuple[str, str], Turn]) -> None:
        self._turns = turns
        self.feeds: dict[tuple[str, str], EventFeed] = {}

    def feed(self, caller: str, thread: str) -> EventFeed:
        """The feed of a thread; it is made if there is none."""
        return self.feeds.setdefault((caller, thread), EventFeed())

    def release(self, caller: str, thread: str) -> None:
        """Drop the feed of a thread that has neither readers nor a running turn."""
        feed = self.feeds.get((caller, thread))
        if feed is not None and not feed.readers and (caller, thread) not in self._turns:
            del self.feeds[caller, thread]

    def listen(self, threads: Threads, thread: str) -> FeedReader:
        if not any(feed.readers for feed in self.feeds.values()):
            threads.host.watch(self._on_call_events)
        reader = FeedReader()
        self.feed(threads.host.caller, thread).readers.append(reader)
        return reader

    def leave(self, threads: Threads, thread: str, reader: FeedReader) -> None:
        self.feeds[threads.host.caller, thread].readers.remove(reader)
        self.release(threads.host.caller, thread)
        if not any(feed.readers for feed in self.feeds.values()):
            threads.host.unwatch(self._on_call_events)

    def _on_call_events(self, caller: str, thread: str, call_id: str, events: Sequence[Event]) -> None:
        """Events of any call of this process: those of a turn's tool calls are published as its progress."""
        turn = self._turns.get((caller, thread))
        if turn is None or not is_of_turn(call_id, turn.mark):
            return
        for event in events:
            if event.type in _PROGRESS or (event.type == "state_changed" and event.state == "retrying"):
                turn.publish(
                    "tool_progress", call_id=call_id, kind=event.type, state=str(event.state), **_plain(event.data)
                )

    # Reading.

    async def until_over(
        self, threads: Threads, reader: FeedReader, thread: str, number: int
    ) -> AsyncGenerator[AgentEvent]:
        """All events of a turn; the last one is `final` or `error`. Events before the reader was added are read from the store."""
        at = threads.host.clock.now()
        last = ""
        async with aclosing(self.turn(threads, reader, thread, number, (number, 0, 0))) as events:
            async for event in events:
                at, last = event.at, event.type
                yield event
        if last not in _LAST:
            yield await _last_event(threads, thread, number, at)

    async def turn(
        self, threads: Threads, reader: FeedReader, thread: str, number: int, after: Position
    ) -> AsyncGenerator[AgentEvent]:
        """Events of one turn after a position, live while it runs in any process. The last event comes when the turn's call has
        ended, so that its reader can begin the next turn."""
        running = self._turns.get((threads.host.caller, thread))
        if running is not None:
            # Entries written before the reader was added have no live events for it: they are in the store after a flush.
            with suppress(ClicketError):
                await running.flush()
        record = await threads.record(thread, number)
        if record is None:
            for event in await _taken_along(threads, thread, number, after):
                yield event
            return
        queued = reader.take()
        position = after
        ended = await threads.is_over(record, thread, number)
        if ended and not record.state.is_terminal:  # it may have ended elsewhere since the record was read
            record = await threads.record(thread, number) or record
        recorded = _events(threads.entries(record.events, thread, number), thread, number, after)
        for event in recorded:
            if ended or event.type not in _LAST:
                position = position_of(event.id)
                yield event
        if ended:
            return
        if threads.host.lives(turn_id(number), threads.inner(thread)):
            source = self._live(threads, reader, thread, number, position, _not_stale(queued, recorded))
        else:
            source = _from_store(threads, thread, number, position)
        async with aclosing(source):
            async for event in source:
                yield event

    async def recorded(self, threads: Threads, thread: str, number: int) -> list[AgentEvent]:
        """The events of a turn that are in the store now."""
        record = await threads.record(thread, number)
        if record is None:
            return await _taken_along(threads, thread, number, (number, 0, 0))
        return _events(threads.entries(record.events, thread, number), thread, number, (number, 0, 0))

    async def _live(
        self,
        threads: Threads,
        reader: FeedReader,
        thread: str,
        number: int,
        position: Position,
        queued: list[AgentEvent],
    ) -> AsyncGenerator[AgentEvent]:
        over = asyncio.ensure_future(_outcome(threads, thread, number))
        over.add_done_callback(lambda _: reader.wake())
        try:
            while True:
                for event in queued:
                    if event.turn != number or event.type in _LAST or (event.id and position_of(event.id) <= position):
                        continue
                    if event.id:
                        position = position_of(event.id)
                    yield event
                if over.done():
                    break
                await reader.news()
                queued = reader.take()
        finally:
            over.cancel()
        try:
            record = await threads.record(thread, number)
        except ClicketError:  # the runtime is closed
            return
        if record is not None:
            for event in _events(threads.entries(record.events, thread, number), thread, number, position):
                yield event

    async def next_turn(self, threads: Threads, reader: FeedReader, thread: str, number: int) -> None:
        """Wait until a turn of this number begins in any process."""
        while True:
            reader.clear_news()  # before the store is read, so that no event in between is missed
            if await threads.record(thread, number) is not None:
                return
            here = asyncio.ensure_future(reader.news())
            later = asyncio.ensure_future(sleep(threads.host.clock, _POLL_EVERY))
            try:
                await asyncio.wait((here, later), return_when=asyncio.FIRST_COMPLETED)
            finally:
                here.cancel()
                later.cancel()


async def _taken_along(threads: Threads, thread: str, number: int, after: Position) -> list[AgentEvent]:
    """Of a turn without a call of its own: one that the thread, a fork, took along."""
    found = await turn_on_record(threads, thread, number)
    return [] if found is None else _events(found.entries, thread, number, after)


async def _outcome(threads: Threads, thread: str, number: int) -> None:
    with suppress(ClicketError):  # the runtime closes, or another process owns the turn: no more live events
        await threads.host.outcome(turn_id(number), threads.inner(thread))


async def _from_store(threads: Threads, thread: str, number: int, position: Position) -> AsyncGenerator[AgentEvent]:
    """Events of a turn that another process runs."""
    handle = await threads.host.made(turn_id(number), threads.inner(thread))
    if handle is None:
        return
    count = 0
    last: list[AgentEvent] = []
    call_events: Any = handle.events()
    async with aclosing(call_events):
        async for call_event in call_events:
            for raw in threads.entries([call_event], thread, number):
                count += 1
                for event in events_of(entry_of(raw), count, thread, number):
                    if position_of(event.id) > position:
                        position = position_of(event.id)
                        if event.type in _LAST:
                            last.append(event)
                        else:
                            yield event
    for event in last:
        yield event


def _not_stale(queued: Sequence[AgentEvent], recorded: Sequence[AgentEvent]) -> list[AgentEvent]:
    """Live events that arrived while the store was read, without deltas and progress of steps whose recorded events are known."""
    steps = defaultdict[tuple[Any, bool], int](int)
    for event in recorded:
        if event.type in ("fallback", "restart"):  # the pieces that come now are of its step
            continue
        place = event.data.get("branch"), event.type in ("tool_result", "plan")
        steps[place] = max(steps[place], event.step)  # the end of a turn belongs to no step
    void = {
        (event.data.get("branch"), event.step): place for place, event in enumerate(queued) if event.type == "restart"
    }  # the pieces before it
    return [
        event
        for place, event in enumerate(queued)
        if event.id
        or (
            event.step > steps[event.data.get("branch"), event.type == "tool_progress"]
            and place >= void.get((event.data.get("branch"), event.step), 0)
        )
    ]


def _events(recorded: Sequence[dict[str, Any]], thread: str, number: int, after: Position) -> list[AgentEvent]:
    entries = enumerate(map(entry_of, recorded), 1)
    every = (event for count, entry in entries for event in events_of(entry, count, thread, number))
    return [event for event in every if position_of(event.id) > after]


async def _last_event(threads: Threads, thread: str, number: int, at: float) -> AgentEvent:
    """The last event of a turn that ended without one, or that ends later in another process."""
    try:
        result = await threads.ended(thread, number)
    except ClicketError as error:
        return AgentEvent(type="error", thread=thread, turn=number, at=at, data={"message": error.message})
    data = {
        "text": result.text,
        "state": str(result.state),
        "stopped": result.stopped,
        "ended": result.ended,
        "value": result.value,
        "steps": result.steps,
    }
    return AgentEvent(type="final", thread=thread, turn=number, at=at, data=data)


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in ("call_id", "kind", "state", "type")}
