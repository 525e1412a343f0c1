"""Appending to calls on PostgreSQL, and rows that another program wrote."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.contract.postgres.kit import Make, until

from clicket.errors import StoreUnavailable
from clicket.ports import Query, Unstorable
from clicket.testing.store_kit import ANY_TOOL, append, created, creation, opened

# Appending.


async def test_what_comes_at_once_is_one_transaction(make: Make, sql: Any) -> None:
    async with opened(make) as store:
        assert await append(store, *(creation(f"c{n}") for n in range(100))) == [None] * 100
        assert sql("SELECT count(*), count(DISTINCT xmin::text) FROM calls") == [(100, 1)]


async def test_names_of_any_length_have_one_identity_each(make: Make) -> None:
    long = "\U0001f600" * 512  # 2,048 bytes: three of them exceed an index entry
    async with opened(make) as store:
        await created(store, long, thread=long, caller=long, tool=long)
        await created(store, long, thread=long, caller=long[1:], tool=long)
        await created(store, long, thread=long[1:], caller=long, tool=long)
        assert len(await store.load(long)) == 3
        assert len(await store.load(long, long, long)) == 1
        assert len(await store.history(Query(thread=long, tool=long, id_prefix=long[:100]))) == 2


async def test_thread_and_caller_do_not_run_together(make: Make) -> None:
    async with opened(make) as store:
        await created(store, "a", thread="xy", caller="z")
        await created(store, "a", thread="x", caller="yz")
        assert len(await store.load("a")) == 2


async def test_a_name_that_cannot_be_stored_harms_no_other(make: Make) -> None:
    async with opened(make) as store:
        nul, lone = creation("a\0b"), creation("x", tool="\ud800")
        answers = await append(store, creation("a"), nul, creation("b"), lone, creation("c"))
        assert [type(answer) for answer in answers] == [type(None), Unstorable, type(None), Unstorable, type(None)]
        assert await store.load("a\0b") == []
        assert await store.history(Query(thread="\ud800")) == []
        assert await store.events(1, "\0", 0) == []


async def test_what_the_server_refuses_harms_no_other(make: Make, sql: Any) -> None:
    async with opened(make) as store:
        sql("ALTER TABLE calls ADD CHECK (id <> 'bad')")
        answers = await append(store, creation("a"), creation("bad"), creation("b"))
        assert [type(answer) for answer in answers] == [type(None), Unstorable, type(None)]
        assert [bool(await store.load(id)) for id in ("a", "bad", "b")] == [True, False, True]


async def test_a_priority_beyond_all_bounds_is_stored(make: Make) -> None:
    async with opened(make) as store:
        low, high = creation("low"), creation("high")
        low.owned = high.owned = False
        low.call.priority, high.call.priority = -(10**30), 10**30
        assert await append(store, low, high) == [None, None]
        assert [stored.id for stored in await store.claim_waiting(ANY_TOOL, 2)] == ["high", "low"]


async def test_big_groups_are_sent_in_portions(make: Make) -> None:
    async with opened(make) as store:
        changes = [creation(f"c{n}") for n in range(12)]
        for change in changes:
            change.events[0].data["text"] = "x" * 1_000_000
        assert await append(store, *changes) == [None] * 12
        assert sum(len(stored.events) for stored in await store.history(Query())) == 12


# Rows that another program wrote.


async def test_hostile_rows_are_shown_as_damaged_and_block_no_other_call(make: Make, sql: Any) -> None:
    bodies = [b"\xff\xfe", b"[[1]]", b'{"py/object": "os.system"}', b"[" * 5000, b"[]", b""]
    async with opened(make) as gone, opened(make) as store:
        for n in range(len(bodies) + 1):
            await created(gone, f"c{n}")
        for n, body in enumerate(bodies):
            sql("UPDATE events SET body = %s WHERE call = (SELECT key FROM calls WHERE id = %s)", body, f"c{n}")
        listed = await store.history(Query())
        assert [(stored.id, bool(stored.damaged)) for stored in listed] == [("c6", False)] + [
            (f"c{n}", True) for n in range(5, -1, -1)
        ]
        assert all(stored.events == [] for stored in listed if stored.damaged)
        assert [bool(stored.damaged) for stored in await store.load("c0")] == [True]
        sql("DELETE FROM owners WHERE id = (SELECT owner FROM calls LIMIT 1)")
        claimed = await store.claim_orphans(ANY_TOOL, 10)
        assert [(stored.id, bool(stored.damaged)) for stored in claimed] == [(f"c{n}", n < 6) for n in range(7)]
        with pytest.raises(StoreUnavailable, match="not what clicket wrote"):
            await store.events(claimed[0].key, "c0", 0)


async def test_filters_are_values_and_never_sql(make: Make, sql: Any) -> None:
    hostile = "x' OR '1'='1'; DROP TABLE calls; --"
    async with opened(make) as store:
        await created(store, "a")
        assert await store.load(hostile, hostile, hostile) == []
        assert await store.history(Query(thread=hostile, tool=hostile, caller=hostile, id_prefix=hostile)) == []
        assert await store.history(Query(id_prefix="%")) == []
        assert await store.claim_waiting(frozenset({hostile, '{"', "\\", "a,b", "NULL"}), 10) == []
        assert await store.cache_clear(hostile) == 0
        assert await store.hold(hostile, 1, 1)
        await created(store, hostile, thread=hostile, tool=hostile)
        assert len(await store.history(Query(tool=hostile))) == 1
        assert sql("SELECT count(*) FROM calls") == [(2,)]


async def test_a_read_that_is_given_up_leaves_the_connection_usable(make: Make, sql: Any) -> None:
    store = make(pool=1)
    async with opened(lambda: store):
        for _ in range(5):
            task = asyncio.create_task(store._open.pool.query("SELECT pg_sleep(0.3)"))
            await asyncio.sleep(0)
            await until(
                lambda: bool(
                    sql("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%%' AND state = 'active'")
                )
            )
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await store.owned() == []
        assert len(store._open.pool._all) == 1, "the same connection all the time"
