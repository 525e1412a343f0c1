"""Retention and cache in PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from tests.contract.postgres.kit import Make, until
from tests.postgres_server import PostgresServer

from clicket.kernel import State
from clicket.ports import CacheItem, CacheUse, Duplicate, Keep, Store
from clicket.testing.store_kit import append, created, creation, ended, news, opened, seqs


async def test_a_thread_over_its_bound_is_not_charged_to_the_others(make: Make) -> None:
    async with opened(make) as store:
        for n in range(8):
            change = await created(store, f"c{n}", thread="busy" if n else "quiet")
            await append(store, news(change, state=State.COMPLETED, ended_at=200.0 + n))
        keep = Keep(calls=4, thread_calls=3)
        assert (await store.sweep(keep, 100, dry=True)).calls == 4
        assert (await store.sweep(keep, 100)).calls == 4
        assert [bool(await seqs(store, f"c{n}")) for n in range(8)] == [True] + [False] * 4 + [True] * 3


async def test_a_sweep_does_not_wait_for_locks(make: Make, server: PostgresServer, schema: str) -> None:
    async with opened(make) as store:
        for n in range(3):
            await ended(store, f"c{n}", at=200.0 + n)
        with psycopg.connect(server.url(), options=f"-c search_path={schema}") as other:
            other.execute("UPDATE calls SET priority = 1 WHERE id = 'c1'")
            swept = await store.sweep(Keep(calls=0), 10)
            assert swept.calls == 2
        assert (await store.sweep(Keep(calls=0), 10)).calls == 1


async def test_a_creation_that_waits_for_a_removal_sees_the_document_that_was_written_before_it(
    make: Make, server: PostgresServer, schema: str
) -> None:
    """The append has begun before the document is there, and cannot go on before the former call is gone."""
    async with opened(make) as store, opened(make) as other:
        former = await ended(store, "a")
        options = f"-c search_path={schema}"
        with (
            psycopg.connect(server.url(), options=options) as removal,
            psycopg.connect(server.url(), options=options, autocommit=True) as watcher,
        ):
            removal.execute("DELETE FROM events WHERE call = %s", [former.key])
            removal.execute("DELETE FROM calls WHERE key = %s", [former.key])
            change = creation("a")
            change.unless = ("past", "a")
            creating = asyncio.create_task(append(store, change))
            waits = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.query LIKE %s"
            await until(lambda: watcher.execute(waits, ["%FROM append(%"]).fetchone() == (1,))
            await other.put_document("past", "a", b"1", None)
            removal.commit()
            (error,) = await creating
        assert isinstance(error, Duplicate)
        assert await store.load("a") == []


async def test_counts_of_the_cache_outlive_their_owners(make: Make, sql: Any) -> None:
    for _ in range(2):
        async with opened(make) as store:
            change = creation("a")
            change.ended_at, change.cache = 1.0, CacheUse("k", True)
            await append(store, change)
            await store.sweep(Keep(calls=0), 10)
    async with opened(make) as store:
        assert (await store.cache_stats()).hits == 2
    assert sql("SELECT owner, hits FROM cache_counts") == [(0, 2)]


async def test_groups_that_share_cached_results_do_not_wait_for_each_other_for_ever(make: Make) -> None:
    async with opened(make) as one, opened(make) as two:

        async def use(store: Store, name: str, keys: list[str]) -> None:
            for turn in range(10):
                changes = [creation(f"{name}{turn}-{key}") for key in keys]
                for change, key in zip(changes, keys, strict=True):
                    item = CacheItem(key=key, body=b"1", tags=(), created_at=1.0, expires_at=9.0, accessed_at=1.0)
                    change.ended_at, change.cache = 1.0, CacheUse(key, False, item)
                assert await append(store, *changes) == [None] * len(changes)

        keys = [f"k{n}" for n in range(20)]
        await asyncio.gather(use(one, "a", keys), use(two, "b", keys[::-1]))
        assert (await one.cache_stats()).misses == 400
