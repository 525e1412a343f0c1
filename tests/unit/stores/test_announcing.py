"""Which messages go with a commit, and what is posted after it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.fakes import Recorder

from clicket.kernel import State
from clicket.model import dump_unit
from clicket.ports import Append
from clicket.stores.announcing import Announcer, Outbox
from clicket.stores.bus import BusMessage
from clicket.testing.store_kit import creation, news

ME, WORKER, GIVER = 1, 2, 3


class Parts:
    def __init__(self, *, encloses: bool = True, fits: bool = True) -> None:
        self.posted: list[tuple[str, int, int]] = []
        self.sealed: list[tuple[int, list[tuple[str, int]], int]] = []
        self.waiting: list[BusMessage] = []
        self.fits = fits
        bus: Any = Recorder(Outbox, me=ME, post=self.post, seal=self.seal)
        self.announcer = Announcer(bus, encloses=encloses)

    def post(self, kind: str, key: int, to: int = 0, body: bytes = b"", *, soon: bool = True) -> None:
        self.posted.append((kind, key, to))

    def seal(self, to: int, messages: list[BusMessage], new: int = 0) -> tuple[list[BusMessage], bytes] | None:
        if not self.fits:
            return None
        self.sealed.append((to, [(message.kind, message.key) for message in messages], new))
        taken, self.waiting = self.waiting, []
        return taken, b"text"

    def write(self, *changes: Append, giver: int = 0, refused: tuple[int, ...] = ()) -> None:
        units = [(change, b"" if change.unit is None else dump_unit(change.unit)) for change in changes]
        enclosures = self.announcer.enclose(units)
        applied = [number not in refused for number in range(len(units))]
        self.announcer.announce(units, applied, [giver] * len(units), enclosures)


def given(id: str, to: int = WORKER) -> Append:
    change = creation(id)
    change.owned, change.to = False, to
    return change


def started() -> tuple[Append, Append]:
    """The start of a call that this process claimed, and its outcome."""
    first = creation("a")
    first.key = 9
    start = news(first, fence=2, state=State.RUNNING)
    return start, news(start, state=State.COMPLETED, ended_at=5.0)


def test_an_offer_goes_with_the_commit_that_creates_its_call() -> None:
    parts = Parts()
    parts.write(given("a"), creation("b"), given("c"), given("d", to=5))
    assert parts.sealed == [(WORKER, [("work", -1), ("work", -1)], 2), (5, [("work", -1)], 1)]
    assert parts.posted == []


def test_an_outcome_goes_to_the_giver_with_its_commit() -> None:
    parts, (start, end) = Parts(), started()
    parts.write(start, giver=GIVER)
    assert (parts.sealed, parts.posted) == ([], [("events", 9, GIVER)]), "the start may wait for the outcome"
    parts.write(end, giver=GIVER)
    assert (parts.sealed, len(parts.posted)) == ([(GIVER, [("events", 9)], 0)], 1)
    parts.write(end, giver=GIVER)
    assert len(parts.sealed) == 1, "the call has ended"


@pytest.mark.parametrize("parts", [Parts(encloses=False), Parts(fits=False)], ids=["a bus carries it", "too long"])
def test_what_cannot_go_with_the_commit_is_posted_after_it(parts: Parts) -> None:
    start, end = started()
    parts.write(given("a"))
    parts.write(start, giver=GIVER)
    parts.write(end, giver=GIVER)
    assert parts.posted == [("work", 0, WORKER), ("events", 9, GIVER), ("events", 9, GIVER)]


def test_a_message_of_a_unit_that_was_refused_is_not_sent() -> None:
    parts = Parts()
    parts.waiting = [BusMessage("health", 0)]
    parts.write(given("a"), given("b"), refused=(1,))
    assert parts.posted == [("health", 0, WORKER), ("work", 0, WORKER)], "what waited, and the offer of the other unit"


def test_calls_without_a_giver_and_those_of_this_process_are_announced_to_none() -> None:
    for giver in (0, ME):
        parts, (start, end) = Parts(), started()
        parts.write(start, giver=giver)
        parts.write(end, giver=giver)
        assert (parts.sealed, parts.posted) == ([], [])
