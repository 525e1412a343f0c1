"""Owners, leases, claims and slots on PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contract.postgres.kit import Make

from clicket.ports import Owner, Query, Stale, Store
from clicket.stores.liveness import this_process
from clicket.testing.store_kit import ANY_TOOL, append, created, creation, news, opened


async def test_one_that_was_given_up_is_an_owner_again_with_its_first_write(make: Make, sql: Any) -> None:
    short = Owner(host="elsewhere.invalid", boot="", pid=1, started="", lease=3600.0)
    async with opened(make, short) as paused, opened(make) as other:
        first = await created(paused, "a")
        (mine,) = [p.id for p in await paused.owners() if p.mine]
        sql("UPDATE owners SET renewed = renewed - interval '2 hours' WHERE id = %s", mine)
        assert [p.alive for p in await other.owners() if p.id == mine] == [False]
        (claimed,) = await other.claim_orphans(ANY_TOOL, 10)
        assert claimed.taken_from == mine
        assert mine not in [p.id for p in await other.owners()]
        (error,) = await append(paused, news(first))
        assert isinstance(error, Stale)
        await created(paused, "b")
        assert [p.alive for p in await other.owners() if p.id == mine] == [True]
        assert await other.claim_orphans(ANY_TOOL, 10) == []


async def test_writing_renews_the_lease(make: Make, sql: Any) -> None:
    async with opened(make, Owner(host="e.invalid", boot="", pid=1, started="", lease=60.0)) as store:
        await created(store, "a")
        sql("UPDATE owners SET renewed = renewed - interval '50 seconds'")
        await created(store, "b")
        assert sql("SELECT count(*) FROM owners WHERE renewed > clock_timestamp() - interval '40 seconds'") == [(1,)]


async def test_a_clock_that_is_set_forward_ends_no_lease(make: Make, sql: Any) -> None:
    far = Owner(host="far.invalid", boot="", pid=1, started="", lease=60.0)
    async with opened(make, far) as alive, opened(make, far) as gone, opened(make, far) as judge:
        await created(alive, "a")
        await created(gone, "b")
        sql("UPDATE owners SET renewed = renewed - interval '2 hours'")
        assert await judge.claim_orphans(ANY_TOOL, 10) == [], "the judge's own lease has expired, too"
        await alive.renew()
        sql("UPDATE owners SET judges_from = judges_from - interval '61 seconds'")  # a lease later
        assert [c.id for c in await judge.claim_orphans(ANY_TOOL, 10)] == ["b"], "not renewed since: dead"


async def test_a_clock_that_is_set_back_extends_no_lease(make: Make, sql: Any) -> None:
    far = Owner(host="far.invalid", boot="", pid=1, started="", lease=60.0)
    async with opened(make, far) as gone, opened(make) as judge:
        await created(gone, "a")
        sql("UPDATE owners SET renewed = renewed + interval '2 hours'")
        assert await judge.claim_orphans(ANY_TOOL, 10) == []
        sql("UPDATE owners SET renewed = renewed - interval '61 seconds' WHERE host = 'far.invalid'")  # a lease later
        assert [c.id for c in await judge.claim_orphans(ANY_TOOL, 10)] == ["a"]


async def test_a_process_that_is_gone_is_dead_at_once(make: Make) -> None:
    me = this_process(3600.0)
    gone = Owner(host=me.host, boot=me.boot, pid=me.pid, started="another time", lease=3600.0)
    async with opened(make, gone) as dead, opened(make, me) as store:
        await created(dead, "a")
        assert sorted(p.alive for p in await store.owners()) == [False, True]
        assert [c.id for c in await store.claim_orphans(ANY_TOOL, 10)] == ["a"]


async def test_calls_of_an_owner_without_a_trace_are_orphans(make: Make, sql: Any) -> None:
    async with opened(make) as lost, opened(make) as store:
        await created(lost, "a")
        sql("DELETE FROM owners WHERE id = (SELECT owner FROM calls)")
        assert [c.id for c in await store.claim_orphans(ANY_TOOL, 10)] == ["a"]


async def test_each_waiting_call_is_claimed_once(make: Make) -> None:
    async with opened(make) as first, opened(make) as second, opened(make) as third:
        changes = [creation(f"c{n}") for n in range(300)]
        for change in changes:
            change.owned = False
        assert await append(first, *changes) == [None] * 300

        async def claim_all(store: Store) -> list[str]:
            taken: list[str] = []
            while len(await store.history(Query(active=True, limit=1000))) and len(taken) < 300:
                found = await store.claim_waiting(ANY_TOOL, 7)
                taken += [stored.id for stored in found]
                if not found:
                    break
            return taken

        shares = await asyncio.gather(*(claim_all(store) for store in (first, second, third)))
        rest = await claim_all(first)  # calls that were locked by another store at that moment
        everything = [id for share in (*shares, rest) for id in share]
        assert sorted(everything) == sorted(f"c{n}" for n in range(300))


async def test_slots_are_never_held_beyond_capacity(make: Make, sql: Any) -> None:
    async with opened(make) as one, opened(make) as two, opened(make) as three:
        most = 0

        async def worker(store: Store) -> int:
            nonlocal most
            granted = 0
            for _ in range(15):
                if await store.hold("tool:x", 2, 4):
                    granted += 1
                    ((held,),) = sql("SELECT sum(held) FROM slots WHERE name = 'tool:x'")
                    most = max(most, held)
                    await store.hold("tool:x", 0, 4)
            return granted

        assert all(await asyncio.gather(*(worker(store) for store in (one, two, three))))
        assert 0 < most <= 4
        assert sql("SELECT count(*) FROM slots") == [(0,)]
