"""The event log alone, with an observers object and a function in place of the store."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from clicket.engine.journal import Observers
from clicket.kernel import State
from clicket.model import Event
from clicket.ports import Query, Stored
from clicket.server.event_log import EventLog
from clicket.server.event_stream import Reader
from clicket.server.shutdown import Shutdown


def log(observers: Observers, **bounds: int) -> EventLog:
    def store() -> Any:
        raise AssertionError("a store that no other process uses is not asked")

    return EventLog(observers, store, is_shared=lambda: False, is_held=lambda *_: True, shutdown=Shutdown(), **bounds)


def publish(observers: Observers, count: int) -> None:
    events = [Event("c", number, 1.0, "note", State.RUNNING, {}) for number in range(1, count + 1)]
    observers.publish(SimpleNamespace(id="c", thread="t", caller="a", tool="t", events=events), events)


def read(events: EventLog, after: int) -> bytes:
    return events.take(Reader({}, after))[0]


class ManyCalls:
    """A store of other processes, with more calls than a poll reads."""

    def __init__(self, count: int) -> None:
        self.asked = 0
        self._calls = [
            Stored(key=key, fence=1, claims=1, owner=None, id=f"c{key}", events=[_created(f"c{key}")])
            for key in range(count, 0, -1)
        ]

    async def history(self, query: Query) -> list[Stored]:
        self.asked += 1
        if query.active:
            return []
        before = query.before or len(self._calls) + 1
        return [stored for stored in self._calls if stored.key < before][: query.limit]

    async def load(self, id: str, thread: str, caller: str) -> list[Stored]:
        return []


def _created(id: str) -> Event:
    return Event(id, 1, time.time(), "created", State.PENDING, {"tool": "t", "thread": "t"})


async def test_more_events_of_other_processes_than_are_read_are_a_gap() -> None:
    store: Any = ManyCalls(1_500)
    events = EventLog(
        Observers(),
        lambda: store,
        is_shared=lambda: True,
        is_held=lambda *_: False,
        shutdown=Shutdown(),
        max_events=100_000,
    )
    events.start()
    reader = Reader({}, events.join(None), lambda kept: False)
    await events.poll_store()
    assert events.take(reader)[0] == b""
    store._calls = ManyCalls(20_000)._calls
    await events.poll_store()
    text = events.take(reader)[0]
    assert text.startswith(b"event: gap"), "for any filter of the reader"
    store.asked = 0
    await events.poll_store()
    assert store.asked == 2, "a page of known calls ends a poll"
    assert events.take(reader)[0] == b""
    await events.stop()


@pytest.mark.parametrize("sees", [True, False])
async def test_a_reader_gets_the_events_that_it_may_see(sees: bool) -> None:
    observers = Observers()
    events = log(observers)
    events.start()
    reader = Reader({}, events.join(None), lambda kept: sees and kept.caller == "a")
    publish(observers, 2)
    assert events.take(reader)[0].count(b"event: note") == (2 if sees else 0)
    await events.stop()
    assert observers.listeners == []


async def test_nothing_is_kept_before_the_first_reader() -> None:
    observers = Observers()
    events = log(observers)
    events.start()
    publish(observers, 3)
    assert read(events, events.join(None)) == b""


async def test_a_reader_that_missed_events_gets_a_gap() -> None:
    observers = Observers()
    events = log(observers, max_events=2)
    events.start()
    after = events.join(None)
    publish(observers, 5)
    text = read(events, after)
    assert text.startswith(b"event: gap")
    assert text.count(b"event: note") == 2
    assert events.join("another-1") == -1
