"""The events of a thread as one stream: first the recorded ones, then live ones, each exactly once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from clicket.agents.agent_result import AgentEvent
from clicket.agents.entries import entry_of, events_of
from clicket.agents.event_feed import EventFeed, FeedReader
from clicket.agents.memory import key_of
from clicket.agents.piece_cursor import PieceCursor
from clicket.agents.pieces import pages_of
from clicket.agents.threads import Threads, turn_id
from clicket.agents.turn import Turn
from clicket.agents.turn_on_record import turn_on_record
from clicket.errors import ClicketError, StoreUnavailable, UsageError
from clicket.model import Event
from clicket.model.ids import is_of_turn
from clicket.model.ports import sleep
from clicket.model.ports.caller import Handle

__all__ = ["EventStreams", "position_of"]

Position = tuple[int, int, int, int]
_POLL_EVERY = 1.0
_PIECES_EVERY = 0.2
"""Seconds between two looks for pieces of a turn that runs elsewhere, while some come; else up to `_QUIET`."""
_QUIET = 1.0
"""Seconds between two looks at the progress of its tool calls."""
_BEGINNING: Position = (0, 0, 0, 0)
_LAST = ("final", "error")
_PROGRESS = frozenset({"progress", "output", "approval_requested", "approval_given"})


def position_of(id: str) -> Position:
    """Turn, entry and number of an event's id, and the offset in the turn's pieces, if it has one; an empty id is the beginning."""
    if not id:
        return _BEGINNING
    turn, _, rest = id.partition("-")
    parts = (turn, *rest.split("."))
    if len(parts) not in (3, 4) or not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in parts):
        raise UsageError(f"{id!r:.100} is not an id of an event; it looks like 3-7.1, or 3-7.0.120 for a stored piece.")
    turn_number, entry, number, *offset = map(int, parts)
    return turn_number, entry, number, offset[0] if offset else 0


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
            if _is_progress(event):
                turn.publish("tool_progress", **_progress(call_id, event))

    # Reading.

    async def until_over(
        self, threads: Threads, reader: FeedReader, thread: str, number: int
    ) -> AsyncGenerator[AgentEvent]:
        """All events of a turn; the last one is `final` or `error`. Events before the reader was added are read from the store."""
        at = threads.host.clock.now()
        last = ""
        async with aclosing(self.turn(threads, reader, thread, number, (number, 0, 0, 0))) as events:
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
        cursor = PieceCursor()
        recorded = _read(cursor, threads.entries(record.events, thread, number), thread, number, after)
        for event in recorded:
            if ended or event.type not in _LAST:
                position = position_of(event.id)
                yield event
        if ended:
            return
        if threads.host.lives(turn_id(number), threads.inner(thread)):
            source = self._live(threads, reader, thread, number, position, _not_stale(queued, recorded), cursor)
        else:
            source = _from_store(threads, thread, number, position, cursor)
        async with aclosing(source):
            async for event in source:
                yield event

    async def recorded(self, threads: Threads, thread: str, number: int) -> list[AgentEvent]:
        """The events of a turn that are in the store now."""
        record = await threads.record(thread, number)
        if record is None:
            return await _taken_along(threads, thread, number, (number, 0, 0, 0))
        return _events(threads.entries(record.events, thread, number), thread, number, (number, 0, 0, 0))

    async def _live(
        self,
        threads: Threads,
        reader: FeedReader,
        thread: str,
        number: int,
        position: Position,
        queued: list[AgentEvent],
        cursor: PieceCursor,
    ) -> AsyncGenerator[AgentEvent]:
        feed = self.feed(threads.host.caller, thread)
        log = feed.pieces if feed.pieces is not None and feed.pieces.turn == number else None
        if log is not None:
            for event in cursor.events(log.after(cursor.offset), thread, number):
                position = position_of(event.id)
                yield event
        over = asyncio.ensure_future(_outcome(threads, thread, number))
        over.add_done_callback(lambda _: reader.wake())
        try:
            while True:
                for event in queued:
                    if event.turn != number or event.type in _LAST or (event.id and position_of(event.id) <= position):
                        continue
                    if event.id:
                        position = position_of(event.id)
                    if event.id and event.type == "delta":
                        for piece in cursor.live(event, feed.pieces):
                            yield piece
                    else:
                        cursor.entry = position[1] - (position[2] == 0)
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


async def _from_store(
    threads: Threads, thread: str, number: int, position: Position, cursor: PieceCursor
) -> AsyncGenerator[AgentEvent]:
    """Events of a turn that another process runs."""
    handle = await threads.host.made(turn_id(number), threads.inner(thread))
    if handle is None:
        return
    count = 0
    last: list[AgentEvent] = []
    calls = _OpenCalls(threads, thread)
    async with aclosing(_call_events(threads, handle, cursor)) as call_events:
        async for call_event in call_events:
            if call_event is None:
                for event in [*await _stored_pieces(threads, thread, number, cursor), *await calls.progress()]:
                    yield event
                continue
            for raw in threads.entries([call_event], thread, number):
                count += 1
                entry = entry_of(raw)
                if count > cursor.entry:
                    cursor.read(count, entry)
                for event in events_of(entry, count, thread, number):
                    calls.take(event)
                    if position_of(event.id) > position:
                        position = position_of(event.id)
                        if event.type in _LAST:
                            last.append(event)
                        else:
                            yield msgspec.structs.replace(event, id=cursor.id_of(event, entry))
    for event in last:
        yield event


async def _call_events(threads: Threads, handle: Handle, cursor: PieceCursor) -> AsyncGenerator[Event | None]:
    """The events of the turn's call. None, again and again: it is time to look for pieces."""
    events: Any = handle.events()
    coming: asyncio.Future[Event] | None = None
    pause = _PIECES_EVERY
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            if cursor.log and not coming.done():
                later = asyncio.ensure_future(sleep(threads.host.clock, pause))
                try:
                    await asyncio.wait((coming, later), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    later.cancel()
                if not coming.done():
                    before = cursor.offset
                    yield None
                    pause = _PIECES_EVERY if cursor.offset > before else min(pause * 1.5, _QUIET)
                    continue
            try:
                event = await coming
            except StopAsyncIteration:
                return
            finally:
                coming = None
            pause = _PIECES_EVERY
            yield event
    finally:
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await coming
        await events.aclose()


async def _stored_pieces(threads: Threads, thread: str, number: int, cursor: PieceCursor) -> list[AgentEvent]:
    host = threads.host
    key = key_of(host.caller, thread, threads.agent)
    try:
        pieces = await pages_of(host.records, key, number, cursor.log, cursor.offset)
    except StoreUnavailable:  # they come with the next look, or the answer does
        return []
    return list(cursor.events(pieces, thread, number))


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


def _read(
    cursor: PieceCursor, recorded: Sequence[dict[str, Any]], thread: str, number: int, after: Position
) -> list[AgentEvent]:
    """The recorded events after a position, which the cursor is moved to and then past them."""
    found: list[AgentEvent] = []
    _, last, place, offset = after
    for count, raw in enumerate(recorded, 1):
        entry = entry_of(raw)
        is_past = count <= last - (place == 0)
        if not is_past and offset:
            cursor.offset, offset = offset, 0
        cursor.read(count, entry, has_pieces_before=is_past)
        found += [event for event in events_of(entry, count, thread, number) if position_of(event.id) > after]
    if offset:
        cursor.offset = offset
    return found


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


def _is_progress(event: Event) -> bool:
    return event.type in _PROGRESS or (event.type == "state_changed" and event.state == "retrying")


def _progress(call_id: str, event: Event) -> dict[str, Any]:
    """Data of the event `tool_progress`, for an event of a turn's tool call."""
    data = {key: value for key, value in event.data.items() if key not in ("call_id", "kind", "seq", "state", "type")}
    return {"call_id": call_id, "kind": event.type, "state": str(event.state), "seq": event.seq, **data}


class _OpenCalls:
    """The tool calls of a turn that runs elsewhere: their progress is read from their journal."""

    def __init__(self, threads: Threads, thread: str) -> None:
        self._threads = threads
        self._thread = thread
        self._open: dict[str, tuple[AgentEvent, int]] = {}
        """With the event that tells of the call, and the number of the last event that was read."""
        self._looked_at = threads.host.clock.monotonic()

    def take(self, event: AgentEvent) -> None:
        call = event.data.get("call_id")
        if event.type == "tool_started" and call:
            self._open[call] = event, 0
        elif event.type == "tool_result":
            self._open.pop(event.data["call_id"], None)

    async def progress(self) -> list[AgentEvent]:
        """What is new, once a second."""
        found: list[AgentEvent] = []
        now = self._threads.host.clock.monotonic()
        if now - self._looked_at < _QUIET:
            return found
        self._looked_at = now
        for call, (started, last) in list(self._open.items()):
            try:
                record = await self._threads.host.record(call, self._thread)
            except StoreUnavailable:
                continue
            new = [] if record is None else [each for each in record.events if each.seq > last]
            if new:
                self._open[call] = started, new[-1].seq
            branch = {"branch": started.data["branch"]} if "branch" in started.data else {}
            found += [
                AgentEvent(
                    type="tool_progress",
                    thread=started.thread,
                    turn=started.turn,
                    at=each.at,
                    step=started.step,
                    data={**_progress(call, each), **branch},
                )
                for each in new
                if _is_progress(each)
            ]
        return found
