"""Equal calls run once: one leads, the others get its result, and a failure is not shared."""

from __future__ import annotations

import pytest
from tests.unit.engine.caching_kit import World

from clicket.engine.ending import result_from
from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.ports import CacheItem

# One process.


async def test_a_call_is_served_from_the_cache() -> None:
    world = World()
    call = world.call()
    world.put(call, {"n": 1})
    world.flights.enter(call)
    assert world.log == [("serve", (call, {"n": 1}))]


@pytest.mark.parametrize("body", [b"not json", b""])
async def test_a_cached_result_that_cannot_be_read_is_none(body: bytes) -> None:
    world = World()
    call = world.call()
    world.put(call, 1)
    world.cached[call.cache_key or ""] = CacheItem(
        key="", body=body, tags=(), created_at=0.0, expires_at=9e9, accessed_at=0.0
    )
    world.flights.enter(call)
    assert world.log == [("run", call)]


async def test_an_unreachable_cache_stops_no_call() -> None:
    world = World(shared=True)
    world.lookup_error = StoreUnavailable("away")
    call = world.call()
    world.flights.enter(call)
    assert world.log == [("run", call)]


async def test_of_equal_calls_at_once_one_runs_and_all_get_its_result() -> None:
    world = World()
    leader, *followers = (world.call(id=id) for id in "abc")
    for call in (leader, *followers):
        world.flights.enter(call)
    assert world.log == [("run", leader), *(("keep", follower) for follower in followers)]
    world.end(leader, State.COMPLETED, "result")
    assert world.log[3:] == [("serve", (follower, "result")) for follower in followers]
    late = world.call(id="d")
    world.flights.enter(late)
    assert world.log[-1] == ("run", late), "the flight leaves nothing"


async def test_a_failure_is_not_shared_and_the_followers_run_on_their_own() -> None:
    world = World()
    leader, *followers = (world.call(id=id) for id in "abc")
    for call in (leader, *followers):
        world.flights.enter(call)
    world.log.clear()
    world.end(leader, State.FAILED)
    assert world.log == [("run", follower) for follower in followers]


@pytest.mark.parametrize("outcome", [State.CANCELLED, State.TIMEOUT])
async def test_a_leader_that_was_stopped_is_succeeded_by_one_follower(outcome: State) -> None:
    world = World()
    leader, second, third = (world.call(id=id) for id in "abc")
    for call in (leader, second, third):
        world.flights.enter(call)
    world.log.clear()
    world.end(leader, outcome)
    assert world.log == [("run", second)]
    world.end(second, State.COMPLETED, "result")
    assert world.log[-1] == ("serve", (third, "result"))


async def test_a_follower_that_was_stopped_is_neither_served_nor_run() -> None:
    world = World()
    leader, stopped, waits = (world.call(id=id) for id in "abc")
    for call in (leader, stopped, waits):
        world.flights.enter(call)
    stopped.seal()
    world.flights.left(stopped)
    world.end(leader, State.COMPLETED, "result")
    assert world.logged("serve") == [(waits, "result")]


async def test_a_result_that_is_too_old_by_the_time_it_is_shared_is_made_anew() -> None:
    world = World()
    leader, follower = world.call(id="a"), world.call(id="b")
    for call in (leader, follower):
        world.flights.enter(call)
    leader.outcome, leader.output, leader.slot = State.COMPLETED, "old", True
    world.flights.use_of(leader)
    world.clock.advance(61.0)
    leader.result = result_from(leader)
    world.flights.left(leader)
    assert (world.logged("serve"), world.logged("run")) == ([], [leader, follower])


async def test_after_closing_no_follower_is_resumed() -> None:
    world = World()
    leader, follower = world.call(id="a"), world.call(id="b")
    for call in (leader, follower):
        world.flights.enter(call)
    world.flights.closed = True
    world.log.clear()
    world.end(leader, State.COMPLETED, "result")
    assert world.log == []


# Several processes.


async def test_among_processes_the_one_that_has_the_slot_runs() -> None:
    world = World(shared=True)
    call = world.call()
    world.flights.enter(call)
    await world.settle()
    assert (world.logged("run"), call.flight) == ([call], f"flight:{call.cache_key}")
    world.end(call, State.COMPLETED, "result")
    assert (world.slots.given, call.flight) == ([f"flight:{call.cache_key}"], None)


async def test_the_others_are_durable_and_wait_until_the_cache_is_filled() -> None:
    world = World(shared=True)
    world.slots.taken = True
    call = world.call()
    world.flights.enter(call)
    await world.clock.run(1.0)
    assert (world.logged("run"), set(world.logged("keep"))) == ([], {call})
    world.put(call, "from there")
    world.flights.slot_freed()
    await world.settle()
    assert (world.logged("serve"), world.clock.pending) == ([(call, "from there")], [])


async def test_when_the_other_process_failed_this_one_runs() -> None:
    world = World(shared=True)
    world.slots.taken = True
    call = world.call()
    world.flights.enter(call)
    await world.clock.run(1.0)
    world.slots.taken = False
    await world.clock.run(0.3)
    assert world.logged("run") == [call]


async def test_a_result_that_came_between_look_and_slot_is_served_and_the_slot_given_back() -> None:
    world = World(shared=True)
    call = world.call()
    world.flights.enter(call)
    world.put(call, "just now")
    await world.settle()
    assert (world.logged("serve"), world.logged("run"), world.slots.given) == (
        [(call, "just now")],
        [],
        [f"flight:{call.cache_key}"],
    )


async def test_a_call_that_ends_while_it_waits_for_another_process_leaves_no_timer() -> None:
    world = World(shared=True)
    world.slots.taken = True
    call = world.call()
    world.flights.enter(call)
    await world.settle()
    call.seal()
    world.flights.left(call)
    await world.settle()
    assert (world.clock.pending, world.logged("run"), world.spawned) == ([], [], [])


async def test_without_a_look_at_other_processes_the_call_runs() -> None:
    world = World(shared=True)
    world.slots.broken = True
    call = world.call()
    world.flights.enter(call)
    await world.settle()
    assert (world.logged("run"), call.flight) == ([call], None)
