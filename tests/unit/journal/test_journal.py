"""Check the table, append, then publish: one unit of a call at a time, nothing shown before it is durable, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from clicket.errors import ClicketError, InvalidTransition, StoreUnavailable
from clicket.journal import Entry, Fenced, Journal
from clicket.kernel import CALL, State
from clicket.model import Event, fold, rows_of
from clicket.ports import Append, Done, Duplicate, Owner, Stored, Unstorable
from clicket.stores.memory import MemoryStore
from clicket.testing import StepClock

OWNER = Owner(host="h", boot="", pid=1, started="", lease=60.0)


class HeldStore(MemoryStore):
    """Applies an append only when the test lets it; can fail, and can lose its answer after it wrote."""

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

    def write_at_once(self, change: Append) -> None:
        answers: list[ClicketError | None] = []
        super().append(change, lambda _, error: answers.append(error))
        assert answers == [None]

    def write_one_but_lose_the_answer(self) -> None:
        change, done = self.held.pop(0)
        self.write_at_once(change)
        done(change, StoreUnavailable("the connection broke after the commit"))

    def write_as_outsider(self, call: Entry, kind: Any, data: dict[str, Any] | None = None) -> Event:
        last = self._calls[call.key].events[-1]
        event = Event(call_id=call.id, seq=last.seq + 1, at=0.0, type=kind, state=last.state, data=data or {})
        change = Append(call, last.seq, -1, rows_of([event]), last.state, key=call.key)
        self.write_at_once(change)
        return event


class Desk:
    """A journal over a store that the test holds in its hand, with one call."""

    def __init__(self) -> None:
        self.clock = StepClock()
        self.store = HeldStore()
        self.tasks: set[asyncio.Task[None]] = set()
        self.on_request: Callable[[Entry, list[Event]], None] = lambda call, events: None
        self.on_unsaved: Callable[[Entry, ClicketError], None] = lambda call, error: None
        self.journal = Journal(
            self.store,
            self.clock,
            self.spawn,
            patience=10.0,
            on_request=lambda call, events: self.on_request(call, events),  # noqa: PLW0108  # a test sets it later
            on_unsaved=lambda call, error: self.on_unsaved(call, error),  # noqa: PLW0108  # the same
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
        """The call is on record; what happens from here on is under test."""
        self.create()
        self.store.let_one_through()
        self.answers.clear()
        return self.call

    def note(self, text: str = "") -> None:
        self.journal.record(self.call, "note", {"text": text})

    def stored(self) -> list[Event]:
        return self.store._calls[self.call.key].events


def live(id: str = "a") -> Entry:
    return Entry(id, "t", "", "tool", 1.0)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    await desk.store.open(OWNER)
    yield desk
    desk.journal.unsaved.clear()
    for task in list(desk.tasks):
        task.cancel()
    await asyncio.gather(*desk.tasks, return_exceptions=True)


# The table.


@pytest.mark.parametrize("current", State, ids=str)
@pytest.mark.parametrize("to", State, ids=str)
async def test_only_edges_of_the_table_are_staged(desk: Desk, current: State, to: State) -> None:
    call = desk.exist()
    call.state = current
    if to in CALL.edges[current]:
        desk.journal.advance(call, to, {"why": "x"})
        ((seq, _, kind, state, data),) = call.rows or ()
        assert (call.state, state, seq, kind) == (to, to, 2, "state_changed")
        assert data == {"from": str(current), "to": str(to), "why": "x"}
        assert (call.ended_at is not None) == to.is_terminal
    else:
        with pytest.raises(InvalidTransition):
            desk.journal.advance(call, to)
        assert (call.state, call.has_staged, call.seq, call.ended_at) == (current, False, 1, None), "nothing changed"


async def test_a_call_served_from_the_cache_completes_at_once(desk: Desk) -> None:
    """The one edge that no runtime takes yet."""
    call = desk.exist()
    desk.journal.advance(call, State.COMPLETED, {"output": 1, "cached": True})
    desk.journal.commit(call)
    desk.store.let_one_through()
    record = fold(desk.stored())
    assert (record.state, record.output, record.cached, record.attempts) == (State.COMPLETED, 1, True, [])


# Nothing is published before it is appended.


async def test_nothing_is_visible_before_it_is_durable(desk: Desk) -> None:
    watcher = desk.journal.watch(desk.call)
    desk.create()
    await desk.clock.settle()
    assert (desk.call.events, desk.seen, desk.answers, watcher.done()) == ([], [], [], False)
    desk.store.let_one_through()
    assert ([e.seq for e in desk.call.events], desk.seen, desk.answers, watcher.done()) == ([1], [1], [None], True)

    desk.journal.advance(desk.call, State.FAILED)
    desk.journal.commit(desk.call, desk.then)
    assert desk.call.state is State.FAILED, "what the owner works with"
    assert desk.call.visible_state is State.PENDING, "what others are told"
    desk.store.let_one_through()
    assert desk.call.visible_state is State.FAILED


async def test_the_store_has_it_when_listeners_hear_of_it(desk: Desk) -> None:
    there: list[bool] = []
    desk.journal.observers.add(lambda call, events: there.append(desk.stored()[-1] == events[-1]))
    desk.exist()
    desk.note()
    desk.journal.commit(desk.call)
    desk.store.let_one_through()
    assert there == [True, True]


async def test_one_unit_is_under_way_and_the_rest_goes_together(desk: Desk) -> None:
    desk.create()
    for n in range(5):
        desk.note(str(n))
        desk.journal.commit(desk.call, desk.then)
    assert [len(change.events) for change, _ in desk.store.held] == [1]
    desk.store.let_one_through()
    assert [len(change.events) for change, _ in desk.store.held] == [5], "a fast producer makes bigger units, not more"
    assert desk.answers == [None], "those behind are not told yet"
    second = desk.store.let_one_through()
    assert (second.expect, [e.seq for e in second.events]) == (1, [2, 3, 4, 5, 6])
    assert desk.answers == [None] * 6
    assert desk.seen == [1, 2, 3, 4, 5, 6]
    assert desk.store.held == []


async def test_flush_waits_for_the_disk(desk: Desk) -> None:
    desk.exist()
    desk.note()
    waiting = asyncio.ensure_future(desk.journal.flush(desk.call))
    await desk.clock.settle()
    assert not waiting.done()
    desk.store.let_one_through()
    await waiting


async def test_flush_behind_a_unit_under_way_waits_for_its_own(desk: Desk) -> None:
    desk.exist()
    desk.note("first")
    desk.journal.commit(desk.call)
    desk.note("second")
    waiting = asyncio.ensure_future(desk.journal.flush(desk.call))
    await desk.clock.settle()
    desk.store.let_one_through()
    await desk.clock.settle()
    assert not waiting.done(), "the first unit is durable, ours is not"
    desk.store.let_one_through()
    await waiting


async def test_whoever_stops_waiting_disturbs_nobody(desk: Desk) -> None:
    desk.exist()
    desk.note()
    waiting = asyncio.ensure_future(desk.journal.flush(desk.call))
    await desk.clock.settle()
    waiting.cancel()
    await desk.clock.settle()
    desk.store.let_one_through()
    assert desk.seen == [1, 2]


async def test_a_listener_that_raises_harms_nobody(desk: Desk) -> None:
    after: list[int] = []

    def bad(call: Entry, events: list[Event]) -> None:
        raise RuntimeError("a listener's own trouble")

    desk.journal.observers.listeners.insert(0, bad)
    desk.journal.observers.add(lambda call, events: after.extend(e.seq for e in events))
    desk.exist()
    assert (desk.seen, after, desk.journal.observers.errors) == ([1], [1], 1)
    desk.note()
    desk.journal.commit(desk.call, desk.then)
    desk.store.let_one_through()
    assert (desk.answers, desk.journal.observers.errors) == ([None], 2)


async def test_a_write_without_events_is_no_news(desk: Desk) -> None:
    heard: list[int] = []
    desk.exist()
    desk.journal.observers.add(lambda call, events: heard.append(events[-1].seq))
    desk.journal.commit(desk.call, desk.then)  # an artifact alone, say
    desk.store.let_one_through()
    assert (desk.answers, heard, desk.journal.observers.errors) == ([None], [], 0)


async def test_a_follow_up_may_stage_more(desk: Desk) -> None:
    """What an answer stages and commits goes out in order, once."""
    desk.exist()

    def then(error: ClicketError | None) -> None:
        desk.note("from the answer")
        desk.journal.commit(desk.call, desk.then)

    desk.note("first")
    desk.journal.commit(desk.call, then)
    desk.store.let_one_through()
    assert len(desk.store.held) == 1
    desk.store.let_one_through()
    assert [e.seq for e in desk.stored()] == [1, 2, 3]
    assert desk.answers == [None]


# A call that never came to be.


@pytest.mark.parametrize("error", [Duplicate("taken"), StoreUnavailable("disk full")], ids=["duplicate", "unavailable"])
async def test_a_call_that_is_not_created_is_told_at_once(desk: Desk, error: ClicketError) -> None:
    desk.create()
    desk.store.refuse_one(error)
    assert desk.answers == [error]
    assert (desk.seen, desk.call.events, desk.call.inflight, desk.store.held) == ([], [], None, [])


# Another process wrote to the call.


async def test_a_request_of_another_process_comes_in_and_ours_follows_it(desk: Desk) -> None:
    heard: list[str] = []
    desk.on_request = lambda call, events: heard.extend(e.type for e in events)
    call = desk.exist()
    desk.journal.advance(call, State.INITIALIZING)
    desk.journal.commit(call, desk.then)
    desk.journal.advance(call, State.RUNNING)  # staged while the first unit is under way: it must move, too
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
    assert heard == ["cancel_requested"]
    assert desk.answers == [None, None]
    assert call.seq == 4


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
    heard: list[int] = []
    desk.on_request = lambda call, events: heard.extend(e.seq for e in events)
    call = desk.exist()
    desk.store.holding = False
    await desk.journal.flush(call)
    assert heard == []
    desk.store.write_as_outsider(call, "cancel_requested")
    await desk.journal.flush(call)
    await desk.clock.settle()
    assert (heard, call.seq, [e.seq for e in call.events]) == ([2], 2, [1, 2])


async def test_what_the_request_sets_off_comes_after_it(desk: Desk) -> None:
    """The engine answers a request by ending the call, from inside the news of it."""
    call = desk.exist()

    def end(call: Entry, events: list[Event]) -> None:
        desk.journal.advance(call, State.CANCELLED)
        desk.journal.commit(call, desk.then)

    desk.on_request = end
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


async def test_who_lost_the_call_is_fenced(desk: Desk) -> None:
    call = desk.exist()
    desk.journal.advance(call, State.INITIALIZING)
    desk.journal.commit(call, desk.then)
    desk.store._calls[call.key].fence = 2
    desk.store.let_one_through()
    await desk.clock.settle()
    (error,) = desk.answers
    assert isinstance(error, Fenced)
    assert [e.state for e in error.details["events"]] == [State.INITIALIZING], "what it would have said is in the error"
    assert (call.fenced, call.inflight) == (True, None)
    assert [e.seq for e in desk.stored()] == [1], "and nothing of it is in the store"
    assert desk.seen == [1]


async def test_what_was_staged_behind_a_fenced_unit_is_answered_too(desk: Desk) -> None:
    call = desk.exist()
    desk.note("first")
    desk.journal.commit(call)
    desk.note("second")
    waiting = asyncio.ensure_future(desk.journal.flush(call))
    await desk.clock.settle()
    desk.store._calls[call.key].fence = 2
    desk.store.holding = False
    desk.store.let_one_through()
    await desk.clock.settle()
    assert waiting.done(), "nobody waits for ever for a call that was taken away"
    assert isinstance(waiting.exception(), Fenced)
    assert [e.seq for e in desk.stored()] == [1]


async def test_a_swept_call_is_fenced(desk: Desk) -> None:
    call = desk.exist()
    desk.note()
    desk.journal.commit(call, desk.then)
    desk.store._remove(call.key)
    desk.store.let_one_through()
    await desk.clock.settle()
    assert [type(e) for e in desk.answers] == [Fenced]


# The store is not there.


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


async def test_who_waits_is_told_after_a_while_and_the_news_are_still_kept(desk: Desk) -> None:
    told: list[tuple[Entry, type]] = []
    desk.on_unsaved = lambda call, error: told.append((call, type(error)))
    call = desk.exist()
    desk.store.failing = 1_000
    desk.note()
    desk.journal.commit(call, desk.then)
    await desk.clock.run(9)
    assert told == []
    await desk.clock.run(3)
    assert told == [(call, StoreUnavailable)]
    assert desk.answers == [], "what hangs on the news goes on once they are stored, however late"
    desk.store.failing = 0
    desk.store.holding = False
    await desk.clock.run(2)
    assert [e.seq for e in desk.stored()] == [1, 2]
    assert (desk.answers, len(told), desk.journal.unsaved) == ([None], 1, set())


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
    """The store wrote it and could not say so: the unit must not be written again under new numbers."""
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
    """A guard against stubs that agree with everything."""
    store = HeldStore()
    seen: list[Callable[..., Any] | None] = []
    change = Append(live(), 0, 1, None, State.PENDING)
    store.append(change, lambda *_: seen.append(None))
    assert (seen, len(store.held)) == ([], 1)


# Soon: with what comes next, if that comes at once.


async def test_what_may_wait_goes_with_the_next_commit(desk: Desk) -> None:
    desk.exist()
    desk.note("first")
    desk.journal.commit_soon(desk.call, desk.then)
    assert not desk.store.held
    desk.note("second")
    desk.journal.commit(desk.call, desk.then)
    assert [event.data["text"] for event in desk.store.held[0][0].events] == ["first", "second"]
    await asyncio.sleep(0)
    assert len(desk.store.held) == 1
    desk.store.let_one_through()
    assert desk.answers == [None, None]


async def test_what_nothing_follows_is_committed_when_the_turn_of_the_loop_ends(desk: Desk) -> None:
    desk.exist()
    desk.note("alone")
    desk.journal.commit_soon(desk.call, desk.then)
    await asyncio.sleep(0)
    desk.store.let_one_through()
    assert desk.answers == [None]


async def test_what_may_wait_goes_after_the_unit_under_way(desk: Desk) -> None:
    desk.exist()
    desk.note("under way")
    desk.journal.commit(desk.call)
    desk.note("later")
    desk.journal.commit_soon(desk.call, desk.then)
    await asyncio.sleep(0)
    assert len(desk.store.held) == 1
    desk.store.let_one_through()
    assert desk.store.let_one_through().events[0].data == {"text": "later"}
    assert desk.answers == [None]


async def test_a_call_that_another_program_damaged_is_given_up_and_its_waiters_are_answered(desk: Desk) -> None:
    call = desk.exist()

    async def damaged(*given: Any) -> Any:
        return [Stored(key=call.key, fence=1, claims=1, owner=1, events=[], id=call.id, damaged="no events")]

    desk.store.load = damaged  # type: ignore[method-assign]
    desk.store.write_as_outsider(call, "cancel_requested")
    desk.store.holding = False
    desk.note("ours")
    desk.journal.commit(call, desk.then)
    await desk.clock.settle()
    (error,) = desk.answers
    assert isinstance(error, Unstorable)
    assert call.inflight is None
