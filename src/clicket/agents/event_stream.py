"""What happened in a thread and what happens now, told in one line: first from the record, then live, each thing once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any

from clicket.agents.entries import events_of
from clicket.agents.feed import Feed, Reader
from clicket.agents.threads import Threads, turn_id
from clicket.agents.turn import Turn
from clicket.agents.values import AgentEvent
from clicket.errors import ClicketError, UsageError
from clicket.model import Event
from clicket.model.ids import is_of_turn
from clicket.ports import sleep

__all__ = ["EventStreams", "place_of"]

Place = tuple[int, int, int]
_LOOK_EVERY = 1.0
_LAST = ("final", "error")
_PROGRESS = frozenset({"progress", "output", "approval_requested", "approval_given"})


def place_of(id: str) -> Place:
    """Turn, entry and number of an event's id; nothing is the beginning."""
    if not id:
        return 0, 0, 0
    turn, _, rest = id.partition("-")
    entry, _, number = rest.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in (turn, entry, number)):
        raise UsageError(f"{id!r:.100} is no id of an event; it looks like 3-7.1.")
    return int(turn), int(entry), int(number)


class EventStreams:
    """The feeds of an agent's threads. While anybody listens, tool calls of the turns under way are watched."""

    def __init__(self, turns: dict[tuple[str, str], Turn]) -> None:
        self._turns = turns
        self._feeds: dict[tuple[str, str], Feed] = {}

    def feed(self, caller: str, thread: str) -> Feed:
        """The feed of a thread for a turn that begins; it has readers, or may get some."""
        return self._feeds.setdefault((caller, thread), Feed())

    def release(self, caller: str, thread: str) -> None:
        """A turn is over: a feed that nobody reads is not kept."""
        feed = self._feeds.get((caller, thread))
        if feed is not None and not feed.readers and (caller, thread) not in self._turns:
            del self._feeds[caller, thread]

    def listen(self, threads: Threads, thread: str) -> Reader:
        if not any(feed.readers for feed in self._feeds.values()):
            threads.host.watch(self._watched)
        reader = Reader()
        self.feed(threads.host.caller, thread).readers.append(reader)
        return reader

    def leave(self, threads: Threads, thread: str, reader: Reader) -> None:
        self._feeds[threads.host.caller, thread].readers.remove(reader)
        self.release(threads.host.caller, thread)
        if not any(feed.readers for feed in self._feeds.values()):
            threads.host.unwatch(self._watched)

    def _watched(self, caller: str, thread: str, call_id: str, events: Sequence[Event]) -> None:
        """Events of any call of this process: those of a turn's tool calls are its progress."""
        turn = self._turns.get((caller, thread))
        if turn is None or not is_of_turn(call_id, turn.mark):
            return
        for event in events:
            if event.type in _PROGRESS or (event.type == "state_changed" and event.state == "retrying"):
                turn.tell(
                    "tool_progress", call_id=call_id, kind=event.type, state=str(event.state), **_plain(event.data)
                )

    # Reading.

    async def until_over(
        self, threads: Threads, reader: Reader, thread: str, number: int
    ) -> AsyncGenerator[AgentEvent]:
        """A turn's events to its last; what came before `reader` listened is told from the record."""
        at, last = threads.host.clock.now(), ""
        async with aclosing(self.turn(threads, reader, thread, number, (number, 0, 0))) as told:
            async for event in told:
                at, last = event.at, event.type
                yield event
        if last not in _LAST:
            yield await _closing(threads, thread, number, at)

    async def turn(
        self, threads: Threads, reader: Reader, thread: str, number: int, after: Place
    ) -> AsyncGenerator[AgentEvent]:
        """Events of one turn after a place; live while it runs, in whichever process. The last one is told when the turn's call
        has ended: whoever hears it may begin the next turn."""
        running = self._turns.get((threads.host.caller, thread))
        if running is not None:
            # What was written before the reader listened is told to nobody: it is on record once this returns.
            with suppress(ClicketError):
                await running.flush()
        record = await threads.record(thread, number)
        if record is None:
            return
        queued = reader.take()
        place, ended = after, record.state.is_terminal
        told = _events(threads.entries(record.events, thread, number), thread, number, after)
        for event in told:
            if ended or event.type not in _LAST:
                place = place_of(event.id)
                yield event
        if ended:
            return
        if threads.host.lives(turn_id(number), threads.inner(thread)):
            source = self._live(threads, reader, thread, number, place, _not_stale(queued, told))
        else:
            source = _elsewhere(threads, thread, number, place)
        async with aclosing(source):
            async for event in source:
                yield event

    async def _live(
        self, threads: Threads, reader: Reader, thread: str, number: int, place: Place, queued: list[AgentEvent]
    ) -> AsyncGenerator[AgentEvent]:
        over = asyncio.ensure_future(_over(threads, thread, number))
        over.add_done_callback(lambda _: reader.wake())
        try:
            while True:
                for event in queued:
                    if event.turn != number or event.type in _LAST or (event.id and place_of(event.id) <= place):
                        continue
                    if event.id:
                        place = place_of(event.id)
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
            for event in _events(threads.entries(record.events, thread, number), thread, number, place):
                yield event

    async def next_turn(self, threads: Threads, reader: Reader, thread: str, number: int) -> None:
        """Wait until a turn of this number begins, here or elsewhere."""
        while True:
            reader.rest()  # before it is looked: what comes meanwhile is news, what the last turn left behind is not
            if await threads.record(thread, number) is not None:
                return
            here = asyncio.ensure_future(reader.news())
            later = asyncio.ensure_future(sleep(threads.host.clock, _LOOK_EVERY))
            try:
                await asyncio.wait((here, later), return_when=asyncio.FIRST_COMPLETED)
            finally:
                here.cancel()
                later.cancel()


async def _over(threads: Threads, thread: str, number: int) -> None:
    try:
        await threads.host.outcome(turn_id(number), threads.inner(thread))
    except ClicketError:
        return  # the runtime closes, or another process has the turn: nothing more comes from here


async def _elsewhere(threads: Threads, thread: str, number: int, place: Place) -> AsyncGenerator[AgentEvent]:
    handle = await threads.host.made(turn_id(number), threads.inner(thread))
    if handle is None:
        return
    count = 0
    last: list[AgentEvent] = []
    events: Any = handle.events()
    async with aclosing(events):
        async for event in events:
            for entry in threads.entries([event], thread, number):
                count += 1
                for told in events_of(entry, count, thread, number):
                    if place_of(told.id) > place:
                        place = place_of(told.id)
                        if told.type in _LAST:
                            last.append(told)
                        else:
                            yield told
    for told in last:
        yield told


def _not_stale(queued: Sequence[AgentEvent], told: Sequence[AgentEvent]) -> list[AgentEvent]:
    """What came live while the record was read, without pieces of answers, and progress of calls, that the record has whole."""
    lines = {(event.data.get("fork"), event.type in ("tool_result", "plan")): event.step for event in told}
    return [
        event
        for event in queued
        if event.id or event.step > lines.get((event.data.get("fork"), event.type == "tool_progress"), 0)
    ]


def _events(told: Sequence[dict[str, Any]], thread: str, number: int, after: Place) -> list[AgentEvent]:
    every = (event for count, entry in enumerate(told, start=1) for event in events_of(entry, count, thread, number))
    return [event for event in every if place_of(event.id) > after]


async def _closing(threads: Threads, thread: str, number: int, at: float) -> AgentEvent:
    """The last word on a turn that ended without one, or that ends elsewhere, later."""
    try:
        result = await threads.ended(thread, number)
    except ClicketError as error:
        return AgentEvent(type="error", thread=thread, turn=number, at=at, data={"message": error.message})
    data = {"text": result.text, "state": str(result.state), "stopped": result.stopped, "steps": result.steps}
    return AgentEvent(type="final", thread=thread, turn=number, at=at, data=data)


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in ("call_id", "kind", "state", "type")}
