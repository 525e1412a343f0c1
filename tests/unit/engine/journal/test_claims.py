"""A commit that claims its call is sent once: if it is refused, the call belongs to another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clicket.engine.journal import Entry, Fenced, Journal
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import Event
from clicket.ports import Append, Done, Stale, Stored
from clicket.testing import StepClock

FIRST = (Event("a", 1, 1.0, "created", State.PENDING, {"tool": "tool", "thread": "t"}),)


class OneStore:
    """Refuses every append, or accepts it."""

    def __init__(self, refuses: bool) -> None:
        self.refuses = refuses
        self.appends: list[Append] = []
        self.events: list[Event] = []

    def append(self, change: Append, done: Done) -> None:
        self.appends.append(change)
        done(change, Stale("another process has it") if self.refuses else None)

    async def load(self, id: str, thread: str, caller: str) -> list[Stored]:
        return [Stored(key=5, fence=2, claims=2, owner=1, events=self.events, id="a")]


def claimed(store: Any, spawned: list[Any]) -> tuple[Journal, Entry]:
    journal = Journal(store, StepClock(), spawned.append)
    entry = Entry("a", "t", "", "tool", 1.0)
    offered = Stored(key=5, fence=2, claims=2, owner=None, events=list(FIRST), id="a")
    journal.adopt(offered, entry, attempts=0, started_at=None, state=State.PENDING, claims=True)
    return journal, entry


async def refused(store: OneStore, found: Callable[[Append], list[Event]]) -> tuple[Entry, list[ClicketError | None]]:
    """A claim that is refused as stale, where the call has these events by then."""
    spawned, ended = list[Any](), list[ClicketError | None]()
    journal, entry = claimed(store, spawned)
    journal.start_and_commit(entry, lambda _, error: ended.append(error), None)
    assert (ended, entry.fenced) == ([], False)
    store.events = [*FIRST, *found(store.appends[0])]
    await spawned[0]
    return entry, ended


async def test_a_claim_that_was_refused_is_never_appended_again() -> None:
    """The other claimer has the same next fence: appended after its events, the claim would fit."""
    store = OneStore(refuses=True)
    other = Event("a", 2, 2.0, "note", State.PENDING, {"text": "taken"})
    entry, ended = await refused(store, lambda _: [other])
    assert [type(error) for error in ended] == [Fenced]
    assert len(store.appends) == 1
    assert (entry.fenced, entry.inflight) == (True, None)


async def test_a_claim_whose_answer_was_lost_was_made() -> None:
    store = OneStore(refuses=True)
    entry, ended = await refused(store, lambda change: list(change.events))
    assert (ended, entry.fenced, entry.claims, entry.durable) == ([None], False, False, 4)
    assert len(store.appends) == 1


def test_only_the_first_commit_claims() -> None:
    store, ended = OneStore(refuses=False), list[ClicketError | None]()
    journal, entry = claimed(store, [])
    journal.start_and_commit(entry, lambda _, error: ended.append(error), None)
    journal.record(entry, "note", {"text": "on"})
    journal.commit(entry)
    assert [(change.claim, change.fence, change.expect) for change in store.appends] == [(True, 2, 1), (False, 2, 4)]
    assert ended == [None]
