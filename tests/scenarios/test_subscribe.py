"""The events of all calls as one stream: durable, filtered, and with a `Gap` where a slow reader missed some."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from tests.cutting_proxy import cutting_proxy
from tests.kit.tools import add, breaks
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import make
from tests.scenarios.server_kit import key_for, served, serving_in_thread

from clicket import Event
from clicket.client import Client, SyncClient
from clicket.runtime import blocking as sync
from clicket.subscription import CallEvent, EventFilter, Gap, Subscription


def plain(event: CallEvent | Gap) -> Event:
    """The event as in its call's record."""
    assert isinstance(event, CallEvent)
    return Event(event.call_id, event.seq, event.at, event.type, event.state, event.data)


async def test_every_event_of_every_call_comes_in_order() -> None:
    async with make([add, breaks]) as rt, rt.subscribe() as events:
        await rt.call("add", {"a": 1, "b": 2}, thread="t1", id="one")
        await rt.call("breaks", {}, thread="t2", id="two")
        seen = [await asyncio.wait_for(anext(events), PATIENCE) for _ in range(11)]
        record = await rt.get("one", thread="t1")
        assert [plain(event) for event in seen] == record.events
        assert {(e.thread, e.tool, e.caller) for e in seen if isinstance(e, CallEvent)} == {("t1", "add", "")}
        rest = (await rt.get("two", thread="t2")).events
        assert [plain(await asyncio.wait_for(anext(events), PATIENCE)) for _ in rest] == rest


async def test_a_filter_leaves_out_the_rest() -> None:
    async with make([add]) as rt:
        wanted = EventFilter(thread="t2", types=frozenset({"attempt_started", "state_changed"}))
        async with rt.subscribe(wanted) as events:
            for thread in ("t1", "t2", "t3"):
                await rt.call("add", {"a": 1, "b": 2}, thread=thread)
            seen = [await asyncio.wait_for(anext(events), PATIENCE) for _ in range(4)]
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
            first = await asyncio.wait_for(anext(events), PATIENCE)
            assert isinstance(first, Event)
            assert first.call_id == "anns"


async def test_a_slow_reader_learns_what_it_missed() -> None:
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


async def test_a_subscription_ends_when_the_runtime_closes() -> None:
    async def read(events: Subscription) -> list[str]:
        return [event.type async for event in events if isinstance(event, CallEvent)]

    async with make([add]) as rt:
        reader = asyncio.ensure_future(read(rt.subscribe(EventFilter(types=frozenset({"created", "state_changed"})))))
        await rt.call("add", {"a": 1, "b": 2})
    assert await asyncio.wait_for(reader, PATIENCE) == ["created"] + ["state_changed"] * 3
    assert rt.observers.listeners == []


# The same over HTTP.


async def test_a_client_has_the_same_events() -> None:
    async with served([add, breaks]) as it, Client(it.url) as client:
        wanted = EventFilter(thread="t1", types=frozenset({"created", "state_changed"}))
        async with client.subscribe() as everything, client.subscribe(wanted) as some:
            await client.call("add", {"a": 1, "b": 2}, thread="t1", id="one")
            await client.call("breaks", {}, thread="t2", id="two")
            record = await client.get("one", thread="t1")
            seen = [await asyncio.wait_for(anext(everything), PATIENCE) for _ in record.events]
            assert [plain(event) for event in seen] == record.events
            assert {(e.thread, e.tool) for e in seen if isinstance(e, CallEvent)} == {("t1", "add")}
            await client.call("add", {"a": 1, "b": 2}, thread="t1", id="three")
            chosen = [await asyncio.wait_for(anext(some), PATIENCE) for _ in range(8)]
            assert [(e.call_id, e.type) for e in chosen if isinstance(e, CallEvent)] == [
                (id, type) for id in ("one", "three") for type in ("created", *["state_changed"] * 3)
            ]


async def test_states_and_a_cursor() -> None:
    wanted = EventFilter(states=frozenset({"completed", "failed"}), types=frozenset({"state_changed"}))
    async with served([add, breaks]) as it, Client(it.url) as client, it.runtime.subscribe(wanted) as here:
        async with client.subscribe(wanted) as events:
            await client.call("add", {"a": 1, "b": 2}, id="one")
            assert plain(await asyncio.wait_for(anext(events), PATIENCE)).state == "completed"
            cursor = events.cursor
        await client.call("breaks", {}, id="two")
        async with client.subscribe(wanted, after=cursor) as events:
            found = plain(await asyncio.wait_for(anext(events), PATIENCE))
            assert (found.call_id, found.state) == ("two", "failed")
        assert [plain(await asyncio.wait_for(anext(here), PATIENCE)).call_id for _ in range(2)] == ["one", "two"]


async def test_a_client_that_was_away_misses_nothing_or_gets_a_gap() -> None:
    async with (
        served([add]) as it,
        served([add]) as restarted,
        cutting_proxy(port_of(it.url)) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}") as client,
        client.subscribe(EventFilter(types=frozenset({"created"}))) as events,
    ):
        await it.runtime.call("add", {"a": 1, "b": 2}, id="one")
        assert plain(await asyncio.wait_for(anext(events), PATIENCE)).call_id == "one"
        await proxy.drop_all()
        await it.runtime.call("add", {"a": 1, "b": 2}, id="two")
        assert plain(await asyncio.wait_for(anext(events), PATIENCE)).call_id == "two"
        proxy.target = port_of(restarted.url)  # another server over the same store numbers its events from 1
        await proxy.drop_all()
        assert await asyncio.wait_for(anext(events), PATIENCE) == Gap(None)
        await events.close()
        assert await anext(events, None) is None


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


async def test_a_key_gets_the_events_of_its_own_calls_alone() -> None:
    async with served([add]) as it:
        headers = [await key_for(it, name, "read", "call") for name in ("ann", "bob")]
        ann, bob = (Client(it.url, key=each["authorization"].removeprefix("Bearer ")) for each in headers)
        async with ann, bob, ann.subscribe(EventFilter(types=frozenset({"created"}))) as events:
            await bob.call("add", {"a": 1, "b": 2}, id="bobs")
            await ann.call("add", {"a": 1, "b": 2}, id="anns")
            assert plain(await asyncio.wait_for(anext(events), PATIENCE)).call_id == "anns"


def test_programs_without_a_loop_have_it_too() -> None:
    with sync.Runtime([add], store="memory://") as rt:
        events = rt.subscribe(EventFilter(types=frozenset({"created"})))
        rt.call("add", {"a": 1, "b": 2}, id="one")
        assert plain(next(events)).call_id == "one"
    with serving_in_thread([add]) as url, SyncClient(url) as client:
        events = client.subscribe(EventFilter(types=frozenset({"created"})))
        client.call("add", {"a": 1, "b": 2}, id="two")
        assert plain(next(events)).call_id == "two"


def test_a_blocking_reader_ends_by_with_by_close_from_another_thread_and_when_it_is_dropped() -> None:
    with sync.Runtime([add], store="memory://") as rt:
        listeners = rt.observers.listeners
        with rt.subscribe() as events:
            assert listeners
        assert (list(events), listeners) == ([], [])
        events = rt.subscribe()
        waiting = ThreadPoolExecutor(1).submit(list, events)
        events.close()
        assert waiting.result(PATIENCE) == []
        events = rt.subscribe()
        del events
        rt.call("add", {"a": 1, "b": 2})  # the loop has had its turn
        assert listeners == []


async def test_what_a_runtime_does_can_be_looked_at() -> None:
    async with make([add]) as rt:
        assert rt.held_calls() == []
        activity = rt.activity()
        assert (activity.queued, activity.slots_used, set(activity.active.values())) == (0, 0, {0})
        (owner,) = await rt.store.owners()
        assert (owner.alive, owner.mine) == (True, True)
