"""Equal calls run once: one leads, the others get its result, a failure is shared with nobody, and no secret makes a key."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.call import Call
from clicket.engine.caching import CacheOptions, Caching
from clicket.engine.single_flight import SingleFlight
from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.model.codec import encode
from clicket.ports import CacheItem, Found


@tool(cache=60)
async def look(city: str = "", day: int = 0) -> str:
    return ""


@tool(cache=60, cache_scope="thread")
async def own() -> str:
    return ""


@tool(cache=60, time_window=100.0)
async def windowed() -> str:
    return ""


@tool
async def plain() -> str:
    return ""


class Slots:
    """Slots that all processes share; `taken`: another process leads."""

    def __init__(self) -> None:
        self.taken = False
        self.broken = False
        self.given: list[str] = []

    async def take(self, name: str, capacity: int) -> bool:
        if self.broken:
            raise StoreUnavailable("away")
        return not self.taken

    def give(self, name: str) -> None:
        self.given.append(name)


class World(Lower):
    def __init__(self, *, shared: bool = False, options: CacheOptions | None = None) -> None:
        super().__init__(look, own, windowed, plain)
        if not shared:
            self.store.durability = "none"
        self.slots = Slots()
        self.cached: dict[str, CacheItem] = {}
        self.lookup_error: ClicketError | None = None
        self.store.cache_get = self._cache_get  # type: ignore[method-assign]
        slots: Any = self.slots
        self.caching = Caching(self.store, self.clock, options or CacheOptions())
        self.flights = SingleFlight(
            self.caching,
            self.store,
            self.clock,
            slots,
            serve=self._serve,
            run=lambda call: self.log.append(("run", call)),
            keep=lambda call: self.log.append(("keep", call)),
            spawn=self.spawn,
        )

    def _serve(self, call: Call, output: Any) -> None:
        call.seal()
        self.log.append(("serve", (call, output)))

    def _cache_get(self, key: str, now: float, found: Found) -> None:
        found(self.cached.get(key), self.lookup_error)

    def call(self, name: str = "look", arguments: Any = None, **more: Any) -> Call:
        call = self.admitted(name, arguments, **more)
        self.caching.fit(call)
        return call

    def put(self, call: Call, output: Any) -> None:
        key, now = call.cache_key or "", self.clock.now()
        self.cached[key] = CacheItem(
            key=key, body=encode(output), tags=(), created_at=now, expires_at=now + 60, accessed_at=now
        )

    def end(self, call: Call, outcome: State, output: Any = None) -> None:
        """The call ran and ended."""
        call.outcome, call.output, call.slot = outcome, output, True
        self.flights.use_of(call)
        call.ended = True
        self.flights.left(call)


# Keys.


async def test_equal_is_what_means_the_same() -> None:
    world = World()
    key = world.call("look", {"city": "Bonn", "day": 1}).cache_key
    assert key is not None
    assert world.call("look", {"day": 1, "city": "Bonn"}, thread="t2").cache_key == key
    assert world.call("look", '{"city": "Bonn", "day": 1}').cache_key == key
    assert world.call("look", {"city": "Köln", "day": 1}).cache_key != key
    assert world.call("look", {"city": "Bonn", "day": 1}, caller="ann").cache_key != key, "callers share nothing"
    assert world.call("plain").cache_key is None


async def test_a_scope_and_a_window_are_part_of_the_key() -> None:
    world = World()
    assert world.call("own", thread="t1").cache_key != world.call("own", thread="t2").cache_key
    before = world.call("windowed").cache_key
    assert world.call("windowed").cache_key == before
    world.clock.advance(100.0)
    assert world.call("windowed").cache_key != before


async def test_no_key_is_made_of_a_secret() -> None:
    world = World()
    call = world.admitted("look", {"city": "sk-" + "proj-4fQ9xLm2Vb7Zt1Rw8Yc3Kd6H"})
    assert call.secrets is not None
    world.caching.fit(call)
    assert call.cache_key is None


async def test_a_cache_that_is_off_gives_no_key() -> None:
    assert World(options=CacheOptions(enabled=False)).call().cache_key is None


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


async def test_a_cache_that_cannot_be_asked_keeps_nobody_from_running() -> None:
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
    assert world.log[-1] == ("run", late), "nothing of the flight is left"


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
    leader.ended = True
    world.flights.left(leader)
    assert (world.logged("serve"), world.logged("run")) == ([], [leader, follower])


async def test_after_closing_nobody_is_sent_on() -> None:
    world = World()
    leader, follower = world.call(id="a"), world.call(id="b")
    for call in (leader, follower):
        world.flights.enter(call)
    world.flights.closed = True
    world.log.clear()
    world.end(leader, State.COMPLETED, "result")
    assert world.log == []


# What goes into the cache.


async def test_what_an_ending_call_leaves_there() -> None:
    world = World()
    call = world.call()
    call.outcome, call.output = State.COMPLETED, {"n": 1}
    use = world.flights.use_of(call)
    assert use is not None
    assert use.item is not None
    assert (use.hit, use.item.body, use.item.tags) == (False, b'{"n":1}', ("tool:look",))
    assert use.item.expires_at == world.clock.now() + 60
    assert world.flights.use_of(world.call("plain")) is None


@pytest.mark.parametrize("change", ["failed", "truncated", "masked", "artifacts", "too big"])
async def test_what_is_not_the_whole_output_or_not_for_all_is_not_left_there(change: str) -> None:
    world = World(options=CacheOptions(max_bytes=100))
    call = world.call()
    call.outcome, call.output = State.COMPLETED, "x"
    if change == "failed":
        call.outcome = State.FAILED
    elif change == "truncated":
        call.truncated = True
    elif change == "masked":
        call.is_masked = True
    elif change == "artifacts":
        call.tool_artifacts = frozenset({"sha256-x"})
    else:
        call.output = "x" * 200
    use = world.flights.use_of(call)
    assert use is not None
    assert (use.hit, use.item) == (False, None)


async def test_a_served_call_counts_as_a_hit_and_leaves_nothing() -> None:
    world = World()
    call = world.call()
    call.outcome, call.cached = State.COMPLETED, True
    use = world.flights.use_of(call)
    assert use is not None
    assert (use.hit, use.item) == (True, None)


async def test_a_call_that_started_before_is_excluded() -> None:
    world = World()
    call = world.call()
    world.caching.exclude(call)
    assert (call.cache_key, world.flights.use_of(call)) == (None, None)


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
