"""The journal when another process wrote to the call, or when the store is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.engine.journal.journal_kit import Desk, HeldStore, live

from clicket.engine.journal import Entry, Fenced
from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.model import Event
from clicket.ports import Append, Duplicate, Unstorable

# Another process wrote to the call.


async def test_a_request_of_another_process_comes_in_and_ours_follows_it(desk: Desk) -> None:
    signals: list[str] = []
    desk.on_signal = lambda call, events: signals.extend(e.type for e in events)
    call = desk.exist()
    desk.journal.advance(call, State.INITIALIZING)
    desk.journal.commit(call, desk.then)
    desk.journal.advance(call, State.RUNNING)  # staged while the first unit is being written: it must move, too
    desk.journal.commit(call, desk.then)
    desk.store.write_as_outsider(call, "cancel_requested", {"reason": "x"})
    desk.store.holding = False
    desk.store.let_one_through()
    await desk.clock.settle()
    assert [(e.seq, e.type, str(e.state)) for e in desk.stored()] == [
        (1, "created", "pending"),
        (2, "cancel_requested", "pending"),
        (3, "state_changed", "initializing"),
        (4, "state_changed", "running"),
    ]
    assert desk.call.events == desk.stored()
    assert desk.seen == [1, 2, 3, 4]
    assert signals == ["cancel_requested"]
    assert desk.answers == [None, None]
    assert call.seq == 4


async def test_a_refused_first_commit_is_reported_even_if_it_was_made_without_a_callback(desk: Desk) -> None:
    refusal = Duplicate("the id is taken")
    desk.journal.record(desk.call, "created", {"tool": "tool", "thread": "t"})
    desk.journal.commit(desk.call)
    desk.note("behind it")
    desk.journal.commit(desk.call, desk.then)
    desk.store.refuse_one(refusal)
    assert desk.not_created == [(desk.call, refusal)]
    assert desk.answers == [refusal]
    assert desk.call.is_idle


async def test_a_refused_later_commit_is_not_one_of_a_call_that_is_not_there(desk: Desk) -> None:
    call = desk.exist()
    desk.note()
    desk.journal.commit(call, desk.then)
    desk.store.refuse_one(Unstorable("too big"))
    assert [type(answer) for answer in desk.answers] == [Unstorable]
    assert desk.not_created == []


async def test_several_requests_come_in_at_once(desk: Desk) -> None:
    call = desk.exist()
    desk.note("ours")
    desk.journal.commit(call, desk.then)
    for _ in range(3):
        desk.store.write_as_outsider(call, "note")
    desk.store.holding = False
    desk.store.let_one_through()
    await desk.clock.settle()
    assert [e.seq for e in desk.stored()] == [1, 2, 3, 4, 5]
    assert desk.stored()[-1].data == {"text": "ours"}
    assert call.events == desk.stored()


async def test_an_empty_commit_brings_the_call_up_to_date(desk: Desk) -> None:
    signals: list[int] = []
    desk.on_signal = lambda call, events: signals.extend(e.seq for e in events)
    call = desk.exist()
    desk.store.holding = False
    await desk.journal.flush(call)
    assert signals == []
    desk.store.write_as_outsider(call, "cancel_requested")
    await desk.journal.flush(call)
    await desk.clock.settle()
    assert (signals, call.seq, [e.seq for e in call.events]) == ([2], 2, [1, 2])


async def test_what_the_request_sets_off_comes_after_it(desk: Desk) -> None:
    """The engine answers a request by ending the call, from inside the callback of the request."""
    call = desk.exist()

    def end(call: Entry, events: list[Event]) -> None:
        desk.journal.advance(call, State.CANCELLED)
        desk.journal.commit(call, desk.then)

    desk.on_signal = end
    desk.store.write_as_outsider(call, "cancel_requested")
    desk.note("ours")
    desk.journal.commit(call)
    desk.store.holding = False
    desk.store.let_one_through()
    await desk.clock.settle()
    assert [(e.seq, e.type) for e in desk.stored()] == [
        (1, "created"),
        (2, "cancel_requested"),
        (3, "note"),
        (4, "state_changed"),
    ]
    assert desk.answers == [None]


async def test_an_owner_that_lost_the_call_is_fenced(desk: Desk) -> None:
    call = desk.exist()
    desk.journal.advance(call, State.INITIALIZING)
    desk.journal.commit(call, desk.then)
    desk.store.steal(call)
    desk.store.let_one_through()
    await desk.clock.settle()
    (error,) = desk.answers
    assert isinstance(error, Fenced)
    assert [e.state for e in error.details["events"]] == [State.INITIALIZING], "the error contains the unwritten events"
    assert (call.fenced, call.inflight) == (True, None)
    assert [e.seq for e in desk.stored()] == [1], "and none of them is stored"
    assert desk.seen == [1]


async def test_what_was_staged_behind_a_fenced_unit_is_answered_too(desk: Desk) -> None:
    call = desk.exist()
    desk.note("first")
    desk.journal.commit(call)
    desk.note("second")
    waiting = asyncio.ensure_future(desk.journal.flush(call))
    await desk.clock.settle()
    desk.store.steal(call)
    desk.store.holding = False
    desk.store.let_one_through()
    await desk.clock.settle()
    assert waiting.done(), "no waiter hangs when another process claims the call"
    assert isinstance(waiting.exception(), Fenced)
    assert [e.seq for e in desk.stored()] == [1]


async def test_a_swept_call_is_fenced(desk: Desk) -> None:
    call = desk.exist()
    desk.note()
    desk.journal.commit(call, desk.then)
    desk.store.remove(call)
    desk.store.let_one_through()
    await desk.clock.settle()
    assert [type(e) for e in desk.answers] == [Fenced]


# The store is unavailable.


async def test_news_of_a_call_that_exists_are_tried_again(desk: Desk) -> None:
    call = desk.exist()
    desk.store.failing = 3
    desk.store.holding = False
    desk.journal.advance(call, State.FAILED)
    desk.journal.commit(call, desk.then)
    await desk.clock.settle()
    assert (desk.answers, desk.seen, call in desk.journal.unsaved) == ([], [1], True)
    await desk.clock.run(5)
    assert (desk.answers, desk.seen, desk.journal.unsaved) == ([None], [1, 2], set())
    assert call.visible_state is State.FAILED


async def test_tries_come_less_and_less_often(desk: Desk) -> None:
    call = desk.exist()
    desk.store.failing = 1_000
    desk.note()
    desk.journal.commit(call, desk.then)
    await desk.clock.settle()
    waits = []
    for _ in range(8):
        (wait,) = desk.clock.pending
        waits.append(wait)
        await desk.clock.run(wait)
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])


async def test_a_waiter_gets_an_error_after_a_while_and_the_events_are_kept(desk: Desk) -> None:
    warned: list[tuple[Entry, type]] = []
    desk.on_unsaved = lambda call, error: warned.append((call, type(error)))
    call = desk.exist()
    desk.store.failing = 1_000
    desk.note()
    desk.journal.commit(call, desk.then)
    await desk.clock.run(9)
    assert warned == []
    await desk.clock.run(3)
    assert warned == [(call, StoreUnavailable)]
    assert desk.answers == [], "callbacks run once the events are stored, however late"
    desk.store.failing = 0
    desk.store.holding = False
    await desk.clock.run(2)
    assert [e.seq for e in desk.stored()] == [1, 2]
    assert (desk.answers, len(warned), desk.journal.unsaved) == ([None], 1, set())


async def test_waiters_are_told_again_when_the_disk_is_full_again(desk: Desk) -> None:
    """What there was room for in between was of another call: a waiter that came then learns it with the next try."""
    full = StoreUnavailable("the disk is full", lasting=True)
    warned: list[Entry] = []
    desk.on_unsaved = lambda call, error: warned.append(call)
    call = desk.exist()
    other = desk.call = live("b")
    desk.exist()
    for each in (call, other):
        desk.journal.record(each, "note", {"text": ""})
        desk.journal.commit(each, desk.then)
        desk.store.refuse_one(full)
        await desk.clock.settle()
    assert warned == [call, other]
    await desk.clock.run(0.05)
    desk.store.held.sort(key=lambda held: held[0].call is call)
    desk.store.let_one_through()
    await desk.clock.settle()
    assert (desk.journal.trouble, desk.journal.unsaved) == (None, {call})
    desk.store.refuse_one(full)
    await desk.clock.settle()
    assert (desk.journal.trouble, warned) == (full, [call, other, call])


async def test_a_full_disk_is_not_remembered_after_the_calls_that_it_stopped_are_gone(desk: Desk) -> None:
    call = desk.exist()
    desk.note()
    desk.journal.commit(call, desk.then)
    desk.store.refuse_one(StoreUnavailable("the disk is full", lasting=True))
    await desk.clock.settle()
    assert desk.journal.is_stuck(call)
    desk.store.steal(call)
    desk.store.holding = False
    await desk.clock.run(1)
    assert (call.fenced, desk.journal.unsaved) == (True, set())
    desk.store.holding = True
    other = desk.call = live("b")
    desk.exist()
    desk.note()
    desk.journal.commit(other, desk.then)
    desk.store.refuse_one(StoreUnavailable("the database is locked", transient=True))
    await desk.clock.settle()
    assert desk.journal.unsaved == {other}
    assert (desk.journal.trouble, desk.journal.is_stuck(other)) == (None, False)


async def test_what_is_staged_meanwhile_follows_in_order(desk: Desk) -> None:
    call = desk.exist()
    desk.store.failing = 2
    desk.store.holding = False
    desk.note("first")
    desk.journal.commit(call, desk.then)
    desk.note("second")
    desk.journal.commit(call, desk.then)
    await desk.clock.run(2)
    assert [e.data.get("text") for e in desk.stored()] == [None, "first", "second"]
    assert desk.answers == [None, None]


async def test_a_request_that_came_while_the_store_was_away(desk: Desk) -> None:
    call = desk.exist()
    desk.store.failing = 1
    desk.store.holding = False
    desk.note("ours")
    desk.journal.commit(call, desk.then)
    await desk.clock.settle()
    desk.store.write_as_outsider(call, "cancel_requested")
    await desk.clock.run(2)
    assert [(e.seq, e.type) for e in desk.stored()] == [(1, "created"), (2, "cancel_requested"), (3, "note")]
    assert desk.answers == [None]


async def test_a_lost_answer_is_not_a_second_outcome(desk: Desk) -> None:
    """The write succeeded, but the answer was lost: the unit must not be written again under new numbers."""
    call = desk.exist()
    desk.journal.advance(call, State.FAILED, {"error": None})
    desk.journal.commit(call, desk.then)
    desk.store.write_one_but_lose_the_answer()
    desk.store.holding = False
    await desk.clock.run(3)
    assert [(e.seq, str(e.state)) for e in desk.stored()] == [(1, "pending"), (2, "failed")]
    assert call.events == desk.stored()
    assert desk.answers == [None]


async def test_a_store_that_cannot_be_read_either(desk: Desk) -> None:
    call = desk.exist()
    load = desk.store.load
    failures = [StoreUnavailable("away"), StoreUnavailable("away")]

    async def unreadable(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return await load(*given)

    desk.store.load = unreadable  # type: ignore[method-assign]
    desk.store.holding = False
    desk.store.write_as_outsider(call, "cancel_requested")
    desk.note("ours")
    desk.journal.commit(call, desk.then)
    await desk.clock.run(5)
    assert [e.type for e in desk.stored()] == ["created", "cancel_requested", "note"]
    assert desk.answers == [None]


@pytest.mark.parametrize("calls", [1, 50])
async def test_calls_do_not_wait_for_each_other(desk: Desk, calls: int) -> None:
    others = [live(f"b{n}") for n in range(calls)]
    desk.create()
    for other in others:
        desk.journal.record(other, "created", {"tool": "tool", "thread": "t"})
        desk.journal.commit(other, desk.then)
    assert len(desk.store.held) == calls + 1
    desk.store.held.reverse()
    while desk.store.held:
        desk.store.let_one_through()
    assert all(len(other.events) == 1 for other in others)


def test_the_hand_made_store_is_what_the_tests_think_it_is() -> None:
    """A guard against a fake store that accepts everything."""
    store = HeldStore()
    seen: list[Callable[..., Any] | None] = []
    change = Append(live(), 0, 1, None, State.PENDING)
    store.append(change, lambda *_: seen.append(None))
    assert (seen, len(store.held)) == ([], 1)
