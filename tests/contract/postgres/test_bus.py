"""Messages between stores over LISTEN and NOTIFY."""

from __future__ import annotations

from typing import Any

from tests.contract.postgres.kit import Make, until

from clicket.stores.postgres import PostgresStore
from clicket.testing.store_kit import ANY_TOOL, append, created, creation, news, opened


class _Ear:
    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.hints: list[tuple[str, int]] = []
        self.bodies: list[tuple[str, int, bytes]] = []
        store.on_hint = lambda kind, key: self.hints.append((kind, key))

    async def listens(self) -> None:
        await until(lambda: self.store.bus.trouble is None)
        self.store.bus.hear = lambda kind, key, body: self.bodies.append((kind, key, body))


async def test_others_hear_of_work_requests_slots_and_watched_events(make: Make) -> None:
    one, two = make(), make()
    async with opened(lambda: one), opened(lambda: two):
        ear, own = _Ear(one), _Ear(two)
        await ear.listens()
        await own.listens()
        waiting = creation("w")
        waiting.owned = False
        await append(two, waiting)
        await until(lambda: ("work", waiting.key) in ear.hints)
        first = await created(two, "a")
        request = news(first, fence=-1, signal=True)
        await append(one, request)
        await until(lambda: ("signal", first.key) in own.hints)
        assert ("events", first.key) not in ear.hints, "no process follows the call"
        assert len(await one.events(first.key, "a", 0)) == 2
        after = news(request)
        assert await append(two, after) == [None]
        await until(lambda: ("events", first.key) in ear.hints)
        assert await two.hold("x", 1, 1)
        assert await two.hold("x", 0, 1)
        await until(lambda: ("slot", 0) in ear.hints)


async def test_a_call_that_was_given_away_is_offered_to_one_worker_and_its_events_come_back(make: Make) -> None:
    one, two, three = make(), make(), make()
    async with opened(lambda: one), opened(lambda: two), opened(lambda: three):
        giver, worker, other = _Ear(one), _Ear(two), _Ear(three)
        for ear in (giver, worker, other):
            await ear.listens()
        given = creation("a")
        given.owned, given.to = False, two.bus.me
        await append(one, given)
        await until(lambda: bool(worker.bodies))
        assert [(kind, key) for kind, key, _ in worker.bodies] == [("work", given.key)]
        start = news(given, fence=2)
        start.claim = True
        assert await append(two, start) == [None]
        await until(lambda: bool(giver.bodies))
        assert [(kind, key) for kind, key, _ in giver.bodies] == [("events", given.key)]
        assert (other.hints, other.bodies) == ([], []), "the other stores get no message"


async def test_many_messages_are_split_and_strange_ones_passed_over(make: Make, sql: Any) -> None:
    store, other = make(), make()
    async with opened(lambda: store), opened(lambda: other):
        ear = _Ear(store)
        await ear.listens()
        await _Ear(other).listens()
        ((channel,),) = sql(
            "SELECT DISTINCT substring(query FROM 'LISTEN \"(clicket [0-9a-f]+)\"') FROM pg_stat_activity "
            "WHERE query ~ 'LISTEN \"clicket' AND pid <> pg_backend_pid() AND query ~ %s",
            f' {store.bus.me}"',
        )
        sql("SELECT pg_notify(%s, %s)", channel, "rubbish 1 work x -5 work 7 events")
        sql("SELECT pg_notify(%s, %s)", channel, "0" * 32 + '[99,[["work",7]]]')
        for key in range(10**15, 10**15 + 2000):
            other.bus.post("events", key)
        await until(lambda: len(ear.hints) >= 2000)
        assert sorted(ear.hints) == [("events", key) for key in range(10**15, 10**15 + 2000)]


async def test_all_goes_on_without_messages_and_they_come_back(make: Make, sql: Any) -> None:
    store, other = make(), make()
    async with opened(lambda: store), opened(lambda: other):
        ear = _Ear(store)
        await ear.listens()
        await _Ear(other).listens()
        ended_ones = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%%LISTEN%%' AND pid <> pg_backend_pid()"
        assert sql(ended_ones)
        await until(lambda: store.bus.trouble is not None)
        change = creation("a")
        change.owned = False
        assert await append(store, change) == [None]
        assert [c.id for c in await other.claim_waiting(ANY_TOOL, 1)] == ["a"]
        await until(lambda: store.bus.trouble is None and other.bus.trouble is None)
        ear.hints.clear()
        await other.hand_back([change.key])
        await until(lambda: ("work", change.key) in ear.hints)


async def test_a_failing_listener_harms_no_other(make: Make) -> None:
    store, other = make(), make()
    async with opened(lambda: store), opened(lambda: other):
        await _Ear(store).listens()
        await _Ear(other).listens()
        hints: list[int] = []

        def on_hint(kind: str, key: int) -> None:
            hints.append(key)
            raise RuntimeError("a listener that fails")

        store.on_hint = on_hint
        for number in (1, 2):
            other.bus.post("work", number)
            await until(lambda number=number: number in hints)  # type: ignore[misc]  # a default argument
