"""A commit that claims its call is sent once: if it is refused, the call belongs to another process."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from clicket.errors import ClicketError
from clicket.journal import Entry, Fenced, Journal
from clicket.kernel import State
from clicket.model import Event
from clicket.ports import Append, Done, Stale, Stored
from clicket.testing import StepClock


class OneStore:
    """Refuses every append, or accepts it."""

    def __init__(self, refuses: bool) -> None:
        self.refuses = refuses
        self.appends: list[Append] = []

    def append(self, change: Append, done: Done) -> None:
        self.appends.append(change)
        done(change, Stale("another process has it") if self.refuses else None)


def claimed(store: Any, spawned: list[Any]) -> tuple[Journal, Entry]:
    def spawn(work: Coroutine[Any, Any, None]) -> None:
        spawned.append(work)
        work.close()

    journal = Journal(store, StepClock(), spawn)
    entry = Entry("a", "t", "", "tool", 1.0)
    first = Event("a", 1, 1.0, "created", State.PENDING, {"tool": "tool", "thread": "t"})
    offered = Stored(key=5, fence=2, claims=2, owner=None, events=[first], id="a")
    journal.adopt(offered, entry, attempts=0, started_at=None, state=State.PENDING, claims=True)
    return journal, entry


def test_a_claim_that_was_refused_is_never_appended_again() -> None:
    """The other claimer has the same next fence: appended after its events, the claim would fit."""
    store, spawned, ended = OneStore(refuses=True), list[Any](), list[ClicketError | None]()
    journal, entry = claimed(store, spawned)
    journal.start_and_commit(entry, lambda _, error: ended.append(error), None)
    assert [type(error) for error in ended] == [Fenced]
    assert len(store.appends) == 1
    assert (spawned, entry.fenced, entry.inflight) == ([], True, None)


def test_only_the_first_commit_claims() -> None:
    store, ended = OneStore(refuses=False), list[ClicketError | None]()
    journal, entry = claimed(store, [])
    journal.start_and_commit(entry, lambda _, error: ended.append(error), None)
    journal.record(entry, "note", {"text": "on"})
    journal.commit(entry)
    assert [(change.claim, change.fence, change.expect) for change in store.appends] == [(True, 2, 1), (False, 2, 4)]
    assert ended == [None]
