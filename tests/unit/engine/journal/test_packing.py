"""Packing is invisible: a plain call's events are the same however they were packed, and whatever came in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.engine.fakes import SharedStore

from clicket.engine.journal import Entry, Journal
from clicket.kernel import State
from clicket.model import Event, Stage, fold, rows_of
from clicket.model.unit import End, Rows, Start
from clicket.ports import Append, OutcomeStats
from clicket.testing import StepClock

CREATED = {"tool": "tool", "thread": "t", "idempotency_key": "k"}
FIRST = {"find": Stage("ok", 0.1), "authorize": Stage("ok", 0.2), "validate": Stage("ok", 0.3)}
LAST = {"execute": Stage("ok", 0.4), "process": Stage("ok", 0.5), "persist": Stage("ok", 0.6)}
STATS = OutcomeStats("tool", "completed", "", 0, 0.4, "completed", 0.0)


class SpiedStore(SharedStore):
    """Records the units that the journal appends."""

    def __init__(self) -> None:
        super().__init__()
        self.units: list[Any] = []

    def append(self, change: Append, done: Any) -> None:
        self.units.append(change.unit)
        super().append(change, done)


class Desk:
    def __init__(self) -> None:
        self.store, self.clock = SpiedStore(), StepClock(start=100.0)
        self.tasks: list[asyncio.Task[Any]] = []
        self.journal = Journal(self.store, self.clock, lambda work: self.tasks.append(asyncio.ensure_future(work)))
        self.entry = Entry("a", "t", "", "tool", 99.0)
        self.units = self.store.units
        self.stages = dict(FIRST)
        self.durable: list[Any] = []

    def _on_durable(self, _: object, error: Any) -> None:
        self.durable.append(error)

    def open(self) -> None:
        self.journal.open(self.entry, dict(CREATED), {"n": 1}, self.stages)

    def start(self) -> None:
        self.journal.start_and_commit(self.entry, self._on_durable, None)

    def end(self, **data: Any) -> None:
        """Like the persist stage: packed if possible, else event by event."""
        outcome, at = {"duration": 2.0, "output": "out", **data}, self.journal.stamp(self.entry)
        self.stages.update(LAST)
        entry, stages, done = self.entry, self.stages, self._on_durable
        if not data and self.journal.complete(entry, at, stages, 3, 2.0, "out", None, STATS, None, done, None):
            return
        self.journal.end(entry, State.COMPLETED, outcome, at, stages, 3, STATS, None)

    def commit(self) -> None:
        self.journal.commit(self.entry)

    @property
    def stored(self) -> list[Event]:
        return self.store.events_of_key(self.entry.key)


def by_hand(desk: Desk) -> None:
    """Without packing: one event after the other."""
    journal, entry = desk.journal, desk.entry
    journal.record(entry, "created", {**CREATED, "arguments": {"n": 1}}, entry.created_at)
    journal.record_stages(entry, entry.created_at, FIRST, 0)
    journal.advance(entry, State.INITIALIZING)
    journal.advance(entry, State.RUNNING)
    journal.record(entry, "attempt_started", {"attempt": 1})
    desk.commit()
    journal.record_stages(entry, 100.0, LAST, 0)
    journal.advance(entry, State.COMPLETED, {"duration": 2.0, "output": "out"}, 100.0)
    desk.commit()


async def test_a_plain_call_is_two_packed_units_and_the_same_events_as_the_long_way() -> None:
    packed, long = Desk(), Desk()
    packed.open()
    packed.start()
    packed.end()
    assert packed.durable == [None, None]
    by_hand(long)
    assert [type(unit) for unit in packed.units] == [Start, End]
    assert packed.stored == long.stored == packed.entry.events
    for name in ("seq", "state", "durable", "visible_state", "last_at", "ended_at"):
        assert getattr(packed.entry, name) == getattr(long.entry, name), name
    assert (packed.entry.attempts, packed.entry.started_at) == (1, 100.0)
    assert fold(packed.stored).output == "out"


async def test_a_call_that_waits_before_it_starts_has_the_same_events() -> None:
    waiting, long = Desk(), Desk()
    waiting.open()
    waiting.commit()  # it is durable in the queue
    assert [event.type for event in waiting.stored] == ["created", "stage_ended", "stage_ended", "stage_ended"]
    waiting.start()
    waiting.end()
    by_hand(long)
    assert waiting.stored == long.stored
    assert type(waiting.units[-1]) is End


async def test_beginning_and_end_in_one_unit_are_the_same_events() -> None:
    together, long = Desk(), Desk()
    together.open()
    together.journal.start(together.entry)
    together.end()
    together.commit()
    by_hand(long)
    assert (len(together.units), together.stored) == (1, long.stored)


async def test_something_staged_in_between_unpacks_and_keeps_the_order() -> None:
    desk = Desk()
    desk.open()
    desk.journal.start(desk.entry)
    desk.journal.record(desk.entry, "note", {"text": "after the start"})
    desk.commit()
    desk.end()
    desk.journal.record(desk.entry, "late_result", {"output": "late"})
    desk.commit()
    assert [event.seq for event in desk.stored] == list(range(1, 14))
    assert [event.type for event in desk.stored][6:9] == ["attempt_started", "note", "stage_ended"]
    assert (desk.stored[-2].is_terminal, desk.stored[-1].type) == (True, "late_result")


async def test_a_note_before_the_end_goes_in_one_unit_with_it() -> None:
    desk = Desk()
    desk.open()
    desk.journal.start(desk.entry)
    desk.commit()
    desk.journal.record(desk.entry, "progress", {"percentage": 100})
    desk.end()
    desk.commit()
    assert (len(desk.units), [event.seq for event in desk.stored]) == (2, list(range(1, 13)))
    assert desk.stored[-1].is_terminal


@pytest.mark.parametrize("refused", [{"find": "ok", "authorize": "permission_denied"}, {"find": "tool_not_found"}])
async def test_a_refused_call_is_never_packed(refused: dict[str, str]) -> None:
    desk = Desk()
    stages = {name: Stage(outcome, 0.1) for name, outcome in refused.items()}
    desk.journal.open(desk.entry, dict(CREATED), None, stages)
    stages["persist"] = Stage("ok", 0.1)
    error = {"duration": 0.0, "error": None}
    desk.journal.end(desk.entry, State.FAILED, error, 100.0, stages, len(refused), STATS, None)
    desk.commit()
    assert "arguments" not in desk.stored[0].data
    ended = [event.data for event in desk.stored if event.type == "stage_ended"]
    assert [(data["stage"], data["outcome"]) for data in ended] == [*refused.items(), ("persist", "ok")]
    assert desk.stored[-1].state is State.FAILED


@pytest.mark.parametrize("data", [{"cached": True}, {"metadata": {"k": 1}}])
async def test_what_the_outcome_says_beside_its_output_is_kept(data: dict[str, Any]) -> None:
    desk = Desk()
    desk.open()
    desk.journal.start(desk.entry)
    desk.commit()
    desk.end(**data)
    desk.commit()
    assert desk.stored[-1].data == {"from": "running", "to": "completed", "duration": 2.0, "output": "out", **data}


async def test_a_second_attempt_is_never_packed_as_a_beginning() -> None:
    desk = Desk()
    desk.open()
    desk.journal.start(desk.entry)
    desk.commit()
    desk.journal.advance(desk.entry, State.RETRYING, {"attempt": 1})
    desk.journal.start(desk.entry)
    desk.commit()
    assert (desk.entry.attempts, desk.stored[-1].data) == (2, {"attempt": 2})
    assert [event.seq for event in desk.stored] == list(range(1, 11))


@pytest.mark.parametrize("under_way", [True, False], ids=["under way", "staged"])
async def test_a_rebase_renumbers_a_packed_end(under_way: bool) -> None:
    desk = Desk()
    desk.open()
    desk.start()
    if not under_way:
        desk.store.holding = True
        desk.journal.record(desk.entry, "note", {"text": "under way"})
        desk.commit()
        desk.store.holding = False
    last = desk.stored[-1]
    foreign = Event("a", last.seq + 1, last.at, "cancel_requested", last.state, {"reason": "x"})
    change = Append(desk.entry, last.seq, -1, rows_of([foreign]), last.state, key=desk.entry.key, signal=True)
    desk.store.write_at_once(change)
    desk.end()
    desk.commit()
    desk.store.let_through()
    await desk.clock.settle()
    assert type(desk.units[-1]) is (End if under_way else Rows)
    assert [event.seq for event in desk.stored] == list(range(1, len(desk.stored) + 1))
    assert desk.stored == desk.entry.events
    assert fold(desk.stored).state is State.COMPLETED
    assert fold(desk.stored).cancel_requested
    assert desk.entry.is_idle


async def test_what_was_discarded_is_as_if_it_had_not_been_staged() -> None:
    desk = Desk()
    desk.open()
    desk.start()
    before = list(desk.stored)
    desk.end(cached=True)
    desk.journal.discard_staged(desk.entry)
    desk.commit()
    assert (desk.stored, desk.entry.seq) == (before, 7)


async def test_the_date_may_be_set_back_before_the_call_starts() -> None:
    desk = Desk()
    desk.clock.set_date(50.0)
    desk.open()
    desk.start()
    assert {event.at for event in desk.stored} == {99.0}
