"""The only writer of call state: the table, and nothing published before it is appended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.cases import case
from tests.unit.engine.journal.journal_kit import OWNER, Desk

from clicket.engine.journal import Entry
from clicket.errors import ClicketError, InvalidTransition, StoreUnavailable
from clicket.kernel import CALL, State
from clicket.model import Event, fold
from clicket.ports import Duplicate, Stored, Unstorable

# The table.


@pytest.mark.parametrize("current", State, ids=str)
async def test_only_edges_of_the_table_are_staged(current: State) -> None:
    for to in State:
        with case(to):
            desk = Desk()
            await desk.store.open(OWNER)
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
                kept = (call.state, call.has_staged, call.seq, call.ended_at)
                assert kept == (current, False, 1, None), "nothing changed"


async def test_a_call_served_from_the_cache_completes_at_once(desk: Desk) -> None:
    """The one edge that no runtime uses yet."""
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
    assert desk.call.state is State.FAILED, "the owner's own view"
    assert desk.call.visible_state is State.PENDING, "the view of readers"
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
    assert desk.answers == [None], "waiters of later events get no answer yet"
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


async def test_a_waiter_that_leaves_does_not_affect_others(desk: Desk) -> None:
    desk.exist()
    desk.note()
    waiting = asyncio.ensure_future(desk.journal.flush(desk.call))
    await desk.clock.settle()
    waiting.cancel()
    await desk.clock.settle()
    desk.store.let_one_through()
    assert desk.seen == [1, 2]


async def test_a_listener_that_raises_does_not_affect_others(desk: Desk) -> None:
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
    published: list[int] = []
    desk.exist()
    desk.journal.observers.add(lambda call, events: published.append(events[-1].seq))
    desk.journal.commit(desk.call, desk.then)  # for example, only an artifact
    desk.store.let_one_through()
    assert (desk.answers, published, desk.journal.observers.errors) == ([None], [], 0)


async def test_a_follow_up_may_stage_more(desk: Desk) -> None:
    """What an answer stages and commits is written in order, once."""
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


# A call that was never created.


@pytest.mark.parametrize("error", [Duplicate("taken"), StoreUnavailable("disk full")], ids=["duplicate", "unavailable"])
async def test_a_call_that_is_not_created_is_reported_at_once(desk: Desk, error: ClicketError) -> None:
    desk.create()
    desk.store.refuse_one(error)
    assert desk.answers == [error]
    assert (desk.seen, desk.call.events, desk.call.inflight, desk.store.held) == ([], [], None, [])


# Soon: together with the next commit, if it comes at once.


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


async def test_what_may_wait_is_committed_once_in_a_turn_of_the_loop_and_again_in_the_next(desk: Desk) -> None:
    desk.exist()
    for turn in range(3):
        for text in ("one", "two"):
            desk.note(f"{text} {turn}")
            desk.journal.commit_soon(desk.call, desk.then)
        await asyncio.sleep(0)
        (held,) = desk.store.held
        assert [event.data["text"] for event in held[0].events] == [f"one {turn}", f"two {turn}"]
        desk.store.let_one_through()
        assert desk.answers == [None, None] * (turn + 1)


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


async def test_a_commit_of_nothing_waits_for_the_unit_under_way_and_writes_none(desk: Desk) -> None:
    desk.create()
    desk.journal.commit(desk.call, desk.then)
    assert desk.answers == []
    desk.store.let_one_through()
    assert desk.answers == [None, None]
    assert (desk.store.held, desk.store.tries) == ([], 1)


async def test_an_artifact_that_is_staged_behind_a_unit_is_written_before_its_commit_counts(desk: Desk) -> None:
    desk.create()
    desk.call.artifacts = (("sha256-a", 1),)
    desk.journal.commit(desk.call, desk.then)
    desk.store.let_one_through()
    assert desk.answers == [None]
    assert desk.store.let_one_through().artifacts == (("sha256-a", 1),)
    assert desk.answers == [None, None]


async def test_giving_a_call_up_is_written_behind_a_unit_under_way(desk: Desk) -> None:
    call = desk.exist()
    desk.journal.commit(call, lambda error: None)  # it asks for news, and says that the process still owns the call
    desk.journal.give_up_ownership(call)
    desk.journal.commit(call, desk.then)
    assert desk.store.let_one_through().owned
    assert not desk.answers
    assert not desk.store.let_one_through().owned
    assert desk.answers == [None]
