"""Shared by the tests of `journal`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from clicket.engine.journal import Entry, Journal
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import Event, rows_of
from clicket.ports import Append, Done, Owner
from clicket.stores.memory import MemoryStore
from clicket.testing import StepClock

__all__ = ["OWNER", "Desk", "HeldStore", "live"]

OWNER = Owner(host="h", boot="", pid=1, started="", lease=60.0)


class HeldStore(MemoryStore):
    """Applies an append only when the test allows it; can fail, and can lose its answer after the write."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[Append, Done]] = []
        self.holding = True
        self.failing = 0
        self.tries = 0

    def append(self, change: Append, done: Done) -> None:
        self.tries += 1
        if self.failing:
            self.failing -= 1
            done(change, StoreUnavailable("the disk is full"))
        elif self.holding:
            self.held.append((change, done))
        else:
            super().append(change, done)

    def let_one_through(self) -> Append:
        change, done = self.held.pop(0)
        super().append(change, done)
        return change

    def refuse_one(self, error: ClicketError) -> None:
        change, done = self.held.pop(0)
        done(change, error)

    def events_of(self, call: Entry) -> list[Event]:
        return self._calls[call.key].events

    def steal(self, call: Entry) -> None:
        """Another process claims the call."""
        self._calls[call.key].fence += 1

    def remove(self, call: Entry) -> None:
        """Another process's sweep removes the call."""
        self._remove(call.key)

    def write_at_once(self, change: Append) -> None:
        answers: list[ClicketError | None] = []
        super().append(change, lambda _, error: answers.append(error))
        assert answers == [None]

    def write_one_but_lose_the_answer(self) -> None:
        change, done = self.held.pop(0)
        self.write_at_once(change)
        done(change, StoreUnavailable("the connection broke after the commit"))

    def write_as_outsider(self, call: Entry, kind: Any, data: dict[str, Any] | None = None) -> Event:
        last = self.events_of(call)[-1]
        event = Event(call_id=call.id, seq=last.seq + 1, at=0.0, type=kind, state=last.state, data=data or {})
        change = Append(call, last.seq, -1, rows_of([event]), last.state, key=call.key)
        self.write_at_once(change)
        return event


class Desk:
    """A journal over a store that the test controls, with one call."""

    def __init__(self) -> None:
        self.clock = StepClock()
        self.store = HeldStore()
        self.tasks: set[asyncio.Task[None]] = set()
        self.on_signal: Callable[[Entry, list[Event]], None] = lambda call, events: None
        self.on_unsaved: Callable[[Entry, ClicketError], None] = lambda call, error: None
        self.not_created: list[tuple[Entry, ClicketError]] = []
        self.journal = Journal(
            self.store,
            self.clock,
            self.spawn,
            patience=10.0,
            on_signal=lambda call, events: self.on_signal(call, events),  # noqa: PLW0108  # a test sets it later
            on_unsaved=lambda call, error: self.on_unsaved(call, error),  # noqa: PLW0108  # the same
            on_not_created=lambda call, error: self.not_created.append((call, error)),
        )
        self.call = live()
        self.seen: list[int] = []
        self.answers: list[ClicketError | None] = []
        self.journal.observers.add(lambda call, events: self.seen.extend(e.seq for e in events))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def then(self, error: ClicketError | None) -> None:
        self.answers.append(error)

    def create(self) -> None:
        self.journal.record(self.call, "created", {"tool": "tool", "thread": "t"})
        self.journal.commit(self.call, self.then)

    def exist(self) -> Entry:
        """The call is stored; what happens from here on is under test."""
        self.create()
        self.store.let_one_through()
        self.answers.clear()
        return self.call

    def note(self, text: str = "") -> None:
        self.journal.record(self.call, "note", {"text": text})

    def stored(self) -> list[Event]:
        return self.store.events_of(self.call)


def live(id: str = "a") -> Entry:
    return Entry(id, "t", "", "tool", 1.0)
