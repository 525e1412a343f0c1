"""The event log alone, with an observers object and a function in place of the store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clicket.journal import Observers
from clicket.kernel import State
from clicket.model import Event
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
