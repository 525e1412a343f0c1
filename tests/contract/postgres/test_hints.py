"""Hints between stores over LISTEN and NOTIFY."""

from __future__ import annotations

from typing import Any

from tests.contract.postgres.kit import Make, until

from clicket.stores.postgres import PostgresStore
from clicket.testing.store_kit import ANY_TOOL, append, created, creation, news, opened


class _Ear:
    def __init__(self, store: PostgresStore) -> None:
        self.heard: list[tuple[str, int]] = []
        store.on_hint = lambda kind, key: self.heard.append((kind, key))


async def test_others_hear_of_work_requests_slots_and_watched_events(make: Make) -> None:
    one, two = make(), make()
    async with opened(lambda: one), opened(lambda: two):
        ear, own = _Ear(one), _Ear(two)
        await one._open.hints.listening.wait()
        await two._open.hints.listening.wait()
        waiting = creation("w")
        waiting.owned = False
        await append(two, waiting)
        await until(lambda: ("work", waiting.key) in ear.heard)
        first = await created(two, "a")
        request = news(first, fence=-1, request=True)
        await append(one, request)
        await until(lambda: ("request", first.key) in own.heard)
        assert ("events", first.key) not in ear.heard, "nobody follows it"
        assert len(await one.events(first.key, "a", 0)) == 2
        after = news(request)
        assert await append(two, after) == [None]
        await until(lambda: ("events", first.key) in ear.heard)
        assert await two.hold("x", 1, 1)
        assert await two.hold("x", 0, 1)
        await until(lambda: ("slot", 0) in ear.heard)


async def test_hints_are_split_and_strange_ones_passed_over(make: Make, sql: Any, schema: str) -> None:
    store = make()
    async with opened(lambda: store):
        ear = _Ear(store)
        await store._open.hints.listening.wait()
        sql(f"SELECT pg_notify('{schema}', 'rubbish 1 work x -5 work 7 events')")
        for key in range(10**15, 10**15 + 2000):
            store._open.hints.post("events", key)
        await until(lambda: len(ear.heard) >= 2001)
        assert sorted(ear.heard) == [*(("events", key) for key in range(10**15, 10**15 + 2000)), ("work", 7)]


async def test_all_goes_on_without_hints_and_they_come_back(make: Make, sql: Any) -> None:
    store = make()
    async with opened(lambda: store):
        ear = _Ear(store)
        await store._open.hints.listening.wait()
        ended_ones = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%%LISTEN%%' AND pid <> pg_backend_pid()"
        assert sql(ended_ones)
        await until(lambda: not store._open.hints.listening.is_set())
        change = creation("a")
        change.owned = False
        assert await append(store, change) == [None]
        assert [c.id for c in await store.claim_waiting(ANY_TOOL, 1)] == ["a"]
        await store._open.hints.listening.wait()
        ear.heard.clear()
        await store.hand_back([change.key])
        await until(lambda: ("work", change.key) in ear.heard)


async def test_a_failing_listener_does_not_affect_others(make: Make) -> None:
    store = make()
    async with opened(lambda: store):
        await store._open.hints.listening.wait()
        heard: list[int] = []

        def on_hint(kind: str, key: int) -> None:
            heard.append(key)
            raise RuntimeError("a listener that fails")

        store.on_hint = on_hint
        for number in (1, 2):
            store._open.hints.post("work", number)
            await until(lambda number=number: number in heard)  # type: ignore[misc]  # a default argument
