"""All calls' events as one stream: durable before they are seen, filtered, and honest about what a slow reader missed."""

from __future__ import annotations

import asyncio

from tests.kit.tools import add, breaks
from tests.scenarios.kit import make

from clicket import Event
from clicket.subscription import EventFilter, Gap


async def test_every_event_of_every_call_comes_in_order() -> None:
    async with make([add, breaks]) as rt, rt.subscribe() as events:
        await rt.call("add", {"a": 1, "b": 2}, thread="t1", id="one")
        await rt.call("breaks", {}, thread="t2", id="two")
        seen = [await asyncio.wait_for(anext(events), 5) for _ in range(11)]
        record = await rt.get("one", thread="t1")
        assert seen == record.events
        rest = (await rt.get("two", thread="t2")).events
        assert [await asyncio.wait_for(anext(events), 5) for _ in rest] == rest


async def test_a_filter_leaves_out_the_rest() -> None:
    async with make([add]) as rt:
        wanted = EventFilter(thread="t2", types=frozenset({"attempt_started", "state_changed"}))
        async with rt.subscribe(wanted) as events:
            for thread in ("t1", "t2", "t3"):
                await rt.call("add", {"a": 1, "b": 2}, thread=thread)
            seen = [await asyncio.wait_for(anext(events), 5) for _ in range(4)]
            assert all(isinstance(event, Event) for event in seen)
            assert [str(event.state) for event in seen if isinstance(event, Event)] == [
                "initializing", "running", "running", "completed",
            ]  # fmt: skip


async def test_a_caller_sees_its_own_calls_alone() -> None:
    async with make([add]) as rt:
        ann, bob = rt.acting_for("ann"), rt.acting_for("bob")
        async with ann.subscribe(EventFilter(types=frozenset({"created"}))) as events:
            await bob.call("add", {"a": 1, "b": 2}, id="bobs")
            await ann.call("add", {"a": 1, "b": 2}, id="anns")
            first = await asyncio.wait_for(anext(events), 5)
            assert isinstance(first, Event)
            assert first.call_id == "anns"


async def test_a_slow_reader_is_told_what_it_missed() -> None:
    async with make([add]) as rt, rt.subscribe(max_pending=5) as events:
        await rt.call("add", {"a": 1, "b": 2})
        assert await anext(events) == Gap(6)
        rest = [await anext(events) for _ in range(5)]
        assert [event.seq for event in rest if isinstance(event, Event)] == [7, 8, 9, 10, 11]


async def test_a_closed_subscription_ends_and_costs_nothing_more() -> None:
    async with make([add]) as rt:
        events = rt.subscribe()
        assert len(rt.observers.listeners) == 1
        waiting = asyncio.ensure_future(anext(events, None))
        await asyncio.sleep(0)
        events.close()
        assert await waiting is None
        assert rt.observers.listeners == []


async def test_what_a_runtime_does_can_be_looked_at() -> None:
    async with make([add]) as rt:
        assert rt.held_calls() == []
        activity = rt.activity()
        assert (activity.queued, activity.slots_used, set(activity.active.values())) == (0, 0, {0})
        (worker,) = await rt.workers()
        assert (worker.alive, worker.mine) == (True, True)
