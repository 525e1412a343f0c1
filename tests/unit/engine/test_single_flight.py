"""Equal calls run once: one leads, the others get its result, and a failure is not shared."""

from __future__ import annotations

import pytest
from tests.unit.engine.caching_kit import Parts

from clicket.engine.lifecycle.ending import result_from
from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.ports import CacheItem

# One process.


async def test_a_call_is_served_from_the_cache() -> None:
    parts = Parts()
    call = parts.call()
    parts.put(call, {"n": 1})
    parts.flights.enter(call)
    assert parts.log == [("serve", (call, {"n": 1}))]


@pytest.mark.parametrize("body", [b"not json", b""])
async def test_a_cached_result_that_cannot_be_read_is_none(body: bytes) -> None:
    parts = Parts()
    call = parts.call()
    parts.put(call, 1)
    parts.cached[call.cache_key or ""] = CacheItem(
        key="", body=body, tags=(), created_at=0.0, expires_at=9e9, accessed_at=0.0
    )
    parts.flights.enter(call)
    assert parts.log == [("run", call)]


async def test_an_unreachable_cache_stops_no_call() -> None:
    parts = Parts(shared=True)
    parts.lookup_error = StoreUnavailable("away")
    call = parts.call()
    parts.flights.enter(call)
    assert parts.log == [("run", call)]


async def test_of_equal_calls_at_once_one_runs_and_all_get_its_result() -> None:
    parts = Parts()
    leader, *followers = (parts.call(id=id) for id in "abc")
    for call in (leader, *followers):
        parts.flights.enter(call)
    assert parts.log == [("run", leader), *(("keep", follower) for follower in followers)]
    parts.end(leader, State.COMPLETED, "result")
    assert parts.log[3:] == [("serve", (follower, "result")) for follower in followers]
    late = parts.call(id="d")
    parts.flights.enter(late)
    assert parts.log[-1] == ("run", late), "the flight leaves nothing"


async def test_a_failure_is_not_shared_and_the_followers_run_on_their_own() -> None:
    parts = Parts()
    leader, *followers = (parts.call(id=id) for id in "abc")
    for call in (leader, *followers):
        parts.flights.enter(call)
    parts.log.clear()
    parts.end(leader, State.FAILED)
    assert parts.log == [("run", follower) for follower in followers]


@pytest.mark.parametrize("outcome", [State.CANCELLED, State.TIMEOUT])
async def test_a_leader_that_was_stopped_is_succeeded_by_one_follower(outcome: State) -> None:
    parts = Parts()
    leader, second, third = (parts.call(id=id) for id in "abc")
    for call in (leader, second, third):
        parts.flights.enter(call)
    parts.log.clear()
    parts.end(leader, outcome)
    assert parts.log == [("run", second)]
    parts.end(second, State.COMPLETED, "result")
    assert parts.log[-1] == ("serve", (third, "result"))


async def test_a_follower_that_was_stopped_is_neither_served_nor_run() -> None:
    parts = Parts()
    leader, stopped, waits = (parts.call(id=id) for id in "abc")
    for call in (leader, stopped, waits):
        parts.flights.enter(call)
    stopped.seal()
    parts.flights.left(stopped)
    parts.end(leader, State.COMPLETED, "result")
    assert parts.logged("serve") == [(waits, "result")]


async def test_a_result_that_is_too_old_by_the_time_it_is_shared_is_made_anew() -> None:
    parts = Parts()
    leader, follower = parts.call(id="a"), parts.call(id="b")
    for call in (leader, follower):
        parts.flights.enter(call)
    leader.outcome, leader.output, leader.slot = State.COMPLETED, "old", True
    parts.flights.use_of(leader)
    parts.clock.advance(61.0)
    leader.result = result_from(leader)
    parts.flights.left(leader)
    assert (parts.logged("serve"), parts.logged("run")) == ([], [leader, follower])


async def test_after_closing_no_follower_is_resumed() -> None:
    parts = Parts()
    leader, follower = parts.call(id="a"), parts.call(id="b")
    for call in (leader, follower):
        parts.flights.enter(call)
    parts.phase.closing = True
    parts.log.clear()
    parts.end(leader, State.COMPLETED, "result")
    assert parts.log == []


# Several processes.


async def test_among_processes_the_one_that_has_the_slot_runs() -> None:
    parts = Parts(shared=True)
    call = parts.call()
    parts.flights.enter(call)
    await parts.settle()
    assert (parts.logged("run"), call.flight) == ([call], f"flight:{call.cache_key}")
    parts.end(call, State.COMPLETED, "result")
    assert (parts.slots.given, call.flight) == ([f"flight:{call.cache_key}"], None)


async def test_the_others_are_durable_and_wait_until_the_cache_is_filled() -> None:
    parts = Parts(shared=True)
    parts.slots.taken = True
    call = parts.call()
    parts.flights.enter(call)
    await parts.clock.run(1.0)
    assert (parts.logged("run"), set(parts.logged("keep"))) == ([], {call})
    parts.put(call, "from there")
    parts.flights.slot_freed()
    await parts.settle()
    assert (parts.logged("serve"), parts.clock.pending) == ([(call, "from there")], [])


async def test_when_the_other_process_failed_this_one_runs() -> None:
    parts = Parts(shared=True)
    parts.slots.taken = True
    call = parts.call()
    parts.flights.enter(call)
    await parts.clock.run(1.0)
    parts.slots.taken = False
    await parts.clock.run(0.3)
    assert parts.logged("run") == [call]


async def test_a_result_that_came_between_look_and_slot_is_served_and_the_slot_given_back() -> None:
    parts = Parts(shared=True)
    call = parts.call()
    parts.flights.enter(call)
    parts.put(call, "just now")
    await parts.settle()
    assert (parts.logged("serve"), parts.logged("run"), parts.slots.given) == (
        [(call, "just now")],
        [],
        [f"flight:{call.cache_key}"],
    )


async def test_a_call_that_ends_while_it_waits_for_another_process_leaves_no_timer() -> None:
    parts = Parts(shared=True)
    parts.slots.taken = True
    call = parts.call()
    parts.flights.enter(call)
    await parts.settle()
    call.seal()
    parts.flights.left(call)
    await parts.settle()
    assert (parts.clock.pending, parts.logged("run"), parts.spawned) == ([], [], [])


async def test_without_a_look_at_other_processes_the_call_runs() -> None:
    parts = Parts(shared=True)
    parts.slots.broken = True
    call = parts.call()
    parts.flights.enter(call)
    await parts.settle()
    assert (parts.logged("run"), call.flight) == ([call], None)
