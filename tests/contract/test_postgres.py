"""The store over a real PostgreSQL: the public contract, and what only a server has."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.postgres_server import PostgresServer, postgres_server

from clicket.errors import NotFound, StoreUnavailable, UsageError
from clicket.kernel import State
from clicket.ports import CacheItem, CacheUse, Keep, Owner, Query, Stale, Store, Unstorable
from clicket.stores.liveness import this_process
from clicket.stores.postgres import PostgresStore
from clicket.stores.postgres.schema import _MIGRATIONS
from clicket.testing import Check, shared_store_contract, store_contract
from clicket.testing.store_kit import ALIVE, ANY_TOOL, append, created, creation, ended, news, opened, seqs

_numbers = itertools.count(1)
Make = Callable[..., PostgresStore]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """For all tests that do it no harm."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def schema() -> str:
    return f"s{next(_numbers)}"


@pytest.fixture
def make(server: PostgresServer, schema: str) -> Make:
    """Doors to one new schema, patient ones: the machine may be busy."""
    return lambda **options: PostgresStore(f"{server.url()}?schema={schema}", **{"timeout": 30.0, **options})


@pytest.fixture
def sql(server: PostgresServer, schema: str) -> Iterator[Callable[..., list[Any]]]:
    """Somebody else with a connection to the same schema."""
    with psycopg.connect(server.url(), autocommit=True, options=f"-c search_path={schema}") as connection:

        def run(text: str, *params: Any) -> list[Any]:
            cursor = connection.execute(text, params or None)
            return cursor.fetchall() if cursor.description else []

        yield run


async def until(true: Callable[[], Awaitable[bool] | bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(60):
        while True:
            answer = true()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("check", store_contract, ids=lambda check: check.__name__)
async def test_store(check: Check, make: Callable[[], Store]) -> None:
    await check(make)


@pytest.mark.parametrize("check", shared_store_contract, ids=lambda check: check.__name__)
async def test_shared_store(check: Check, make: Callable[[], Store]) -> None:
    await check(make)


# Opening.


async def test_many_may_open_a_new_store_at_once(make: Make, sql: Any) -> None:
    stores = [make() for _ in range(6)]
    await asyncio.gather(*(store.open(ALIVE) for store in stores))
    numbers = [row[0] for row in sql("SELECT number FROM clicket_migrations ORDER BY 1")]
    assert numbers == list(range(1, len(_MIGRATIONS) + 1))
    assert len(await stores[0].owners()) == 6
    await asyncio.gather(*(store.close() for store in stores))
    assert sql("SELECT count(*) FROM owners") == [(0,)]


async def test_a_newer_schema_is_refused_and_left_alone(make: Make, sql: Any) -> None:
    async with opened(make):
        sql("INSERT INTO clicket_migrations (number, name) VALUES (99, 'future')")
    with pytest.raises(StoreUnavailable, match="newer clicket"):
        await make().open(ALIVE)
    assert sql("SELECT max(number) FROM clicket_migrations") == [(99,)]


async def test_a_foreign_schema_is_refused_and_left_alone(make: Make, sql: Any, schema: str) -> None:
    sql(f"CREATE SCHEMA {schema}; CREATE TABLE calls (mine text)")
    with pytest.raises(StoreUnavailable, match="another program"):
        await make().open(ALIVE)
    assert sql("SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace") == [(1,)]


async def test_a_schema_made_by_an_administrator_is_enough(server: PostgresServer, sql: Any, schema: str) -> None:
    sql(f"CREATE ROLE {schema} LOGIN; REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
    store = PostgresStore(f"{server.url(user=schema)}?schema={schema}", timeout=30.0)
    with pytest.raises(StoreUnavailable, match="CREATE SCHEMA"):
        await store.open(ALIVE)
    sql(f"CREATE SCHEMA {schema} AUTHORIZATION {schema}")
    async with opened(lambda: store):
        await created(store, "a")


@pytest.mark.parametrize(
    "name", ["", "pg_catalog", "1st", 'a"; DROP SCHEMA public; --', "a b", "a.b", "ü", "x" * 64, "%00"]
)
def test_a_schema_must_have_a_plain_name(name: str) -> None:
    with pytest.raises(UsageError, match="schema"):
        PostgresStore(f"postgresql://localhost/db?schema={name}")


async def test_a_password_is_never_shown(server: PostgresServer) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        url = f"postgresql://joe:s3cret@127.0.0.1:{port}/db?password=s3cret&application_name=x"
        store = PostgresStore(url, timeout=0.3)
        assert store.url == f"postgresql://joe@127.0.0.1:{port}/db?application_name=x"
        with pytest.raises(StoreUnavailable, match="refused") as caught:
            await store.open(ALIVE)
    assert "s3cret" not in str(caught.value) + repr(caught.value.details)
    with pytest.raises(UsageError) as wrong:
        PostgresStore("postgresql://joe:s3cret%zz@host/db")
    assert "s3cret" not in str(wrong.value)


async def test_who_is_not_let_in_is_told_what_to_do(server: PostgresServer, sql: Any) -> None:
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    sql("CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'right'")
    sql("SELECT pg_reload_conf()")
    with pytest.raises(StoreUnavailable, match="Check user and password"):
        await PostgresStore(server.url(user="guarded", password="wrong")).open(ALIVE)
    with pytest.raises(StoreUnavailable, match="Create it first"):
        await PostgresStore(server.url("nowhere")).open(ALIVE)
    with pytest.raises(StoreUnavailable, match="unknown"):
        await PostgresStore("postgresql://no.such.host.invalid/db", timeout=0.3).open(ALIVE)
    async with opened(lambda: PostgresStore(server.url(user="guarded", password="right"), timeout=30.0)) as store:
        assert await store.owned() == []


async def test_a_host_may_have_a_name_and_several_may_be_tried(server: PostgresServer, schema: str) -> None:
    with socket.socket() as taken:  # bound and not listening
        taken.bind(("127.0.0.1", 0))
        places = f"127.0.0.1:{taken.getsockname()[1]},localhost:{server.port}"
        store = PostgresStore(f"postgresql://postgres@{places}/postgres?schema={schema}", timeout=30.0)
        async with opened(lambda: store):
            await created(store, "a")


async def test_a_database_that_cannot_be_written_is_refused(server: PostgresServer, sql: Any) -> None:
    sql("CREATE DATABASE shut")
    sql("ALTER DATABASE shut SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable, match="takes no writes"):
        await PostgresStore(server.url("shut")).open(ALIVE)
    sql("CREATE DATABASE odd ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StoreUnavailable, match="LATIN1"):
        await PostgresStore(server.url("odd")).open(ALIVE)


async def test_a_replica_is_refused() -> None:
    replica = PostgresServer()
    try:
        (replica.folder / "data" / "standby.signal").touch()
        replica.start()
        with pytest.raises(StoreUnavailable, match="replica"):
            await PostgresStore(replica.url()).open(ALIVE)
    finally:
        replica.close()


async def test_settings_that_can_lose_commits_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with postgres_server(fsync="off", full_page_writes="off") as careless:
        with pytest.raises(StoreUnavailable, match="fsync=off"):
            await PostgresStore(careless.url(), durability="power").open(ALIVE)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "clicket.stores.postgres"):
            async with opened(lambda: PostgresStore(careless.url(), timeout=30.0)) as store:
                assert ["fsync" in risk or "full_page_writes" in risk for risk in store.risks] == [True, True]  # type: ignore[attr-defined]
        assert len(caplog.records) == 2


async def test_a_commit_waits_for_the_disk_whatever_the_role_says(make: Make, sql: Any, server: PostgresServer) -> None:
    sql("CREATE ROLE hasty LOGIN SUPERUSER")
    sql("ALTER ROLE hasty SET synchronous_commit = off")
    store = PostgresStore(server.url(user="hasty"), durability="power", timeout=30.0)
    async with opened(lambda: store):
        assert store.risks == []
        rows = await store._open.pool.query("SELECT current_setting('synchronous_commit')")
        assert rows == [("on",)]


# Appending.


async def test_what_comes_at_once_is_one_transaction(make: Make, sql: Any) -> None:
    async with opened(make) as store:
        assert await append(store, *(creation(f"c{n}") for n in range(100))) == [None] * 100
        assert sql("SELECT count(*), count(DISTINCT xmin::text) FROM calls") == [(100, 1)]


async def test_names_of_any_length_have_one_identity_each(make: Make) -> None:
    long = "\U0001f600" * 512  # 2,048 bytes: three of them are more than an index entry takes
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


# Owners.


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


async def test_a_clock_that_is_set_forward_makes_nobody_dead(make: Make, sql: Any) -> None:
    far = Owner(host="far.invalid", boot="", pid=1, started="", lease=60.0)
    async with opened(make, far) as alive, opened(make, far) as gone, opened(make, far) as judge:
        await created(alive, "a")
        await created(gone, "b")
        sql("UPDATE owners SET renewed = renewed - interval '2 hours'")
        assert await judge.claim_orphans(ANY_TOOL, 10) == [], "its own lease has run out, too: that proves nothing"
        await alive.renew()
        sql("UPDATE owners SET judges_from = judges_from - interval '61 seconds'")  # a lease later
        assert [c.id for c in await judge.claim_orphans(ANY_TOOL, 10)] == ["b"], "who has not renewed since is dead"


async def test_a_clock_that_is_set_back_keeps_nobody_alive(make: Make, sql: Any) -> None:
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
        rest = await claim_all(first)  # what was locked in the very moment that everybody looked
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


# Hints.


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


async def test_a_failing_listener_harms_nobody(make: Make) -> None:
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


# Artifacts.

_NAME = "sha256-" + "0123456789abcdef" * 4


async def test_ranges_of_a_big_artifact(make: Make, sql: Any) -> None:
    data = bytes(range(251)) * 25_000  # 5.98 MiB, and no two mebibytes alike
    async with opened(make) as store:
        await store.put_artifact(_NAME, [data[:1], b"", data[1:3_000_000], data[3_000_000:]])
        assert sql("SELECT count(*), max(length(body)) FROM pieces") == [(6, 1024 * 1024)]
        mebibyte = 1024 * 1024
        for start, end in (
            (0, None),
            (0, 1),
            (mebibyte - 1, mebibyte + 1),
            (mebibyte, 2 * mebibyte),
            (3_000_000, 5_000_000),
            (len(data) - 1, None),
            (len(data), None),
            (5, 3),
        ):
            assert await store.read_artifact(_NAME, start, end) == data[start:end]
        await store.put_artifact("sha256-" + "0" * 64, [])
        assert await store.read_artifact("sha256-" + "0" * 64, 0, None) == b""
        assert await store.size() > len(data)


async def test_an_artifact_goes_with_the_last_call_that_names_it(make: Make, sql: Any) -> None:
    async with opened(make) as store:
        for _ in range(3):
            await store.put_artifact(_NAME, [b"x" * 5000])
        await ended(store, "a", at=200.0, artifacts=((_NAME, 5000),))
        await ended(store, "b", at=300.0, artifacts=((_NAME, 5000),))
        assert (await store.sweep(Keep(calls=0), 10)).artifacts == 0, "it was put thrice: a third call is to come"
        assert await store.read_artifact(_NAME, 0, 1) == b"x"
        await ended(store, "c", at=300.0, artifacts=((_NAME, 5000),))
        swept = await store.sweep(Keep(calls=0), 10)
        assert (swept.calls, swept.artifacts) == (1, 1)
        with pytest.raises(NotFound):
            await store.read_artifact(_NAME, 0, 1)
        assert sql("SELECT (SELECT count(*) FROM pieces), (SELECT count(*) FROM puts)") == [(0, 0)]


async def test_what_was_put_and_never_named_goes_in_time(make: Make, sql: Any) -> None:
    async with opened(make) as store:
        await store.put_artifact(_NAME, [b"x"])
        assert (await store.sweep(Keep(calls=0), 10)).artifacts == 0
        sql("UPDATE puts SET at = at - interval '2 hours'")
        assert (await store.sweep(Keep(calls=0), 10)).artifacts == 1
    async with opened(make) as left:
        await left.put_artifact(_NAME, [b"x"])
    async with opened(make) as store:
        assert (await store.sweep(Keep(calls=0), 10)).artifacts == 1, "its owner has left"


async def test_the_same_artifact_from_two_sides(make: Make, sql: Any) -> None:
    async with opened(make) as one, opened(make) as two:
        await asyncio.gather(*(store.put_artifact(_NAME, [b"x" * 3_000_000]) for store in (one, two, one, two)))
        assert sql("SELECT count(*) FROM pieces") == [(3,)]
        assert sql("SELECT sum(number) FROM puts") == [(4,)]


# Retention and cache.


async def test_a_thread_over_its_bound_is_not_charged_to_the_others(make: Make) -> None:
    async with opened(make) as store:
        for n in range(8):
            change = await created(store, f"c{n}", thread="busy" if n else "quiet")
            await append(store, news(change, state=State.COMPLETED, ended_at=200.0 + n))
        keep = Keep(calls=4, thread_calls=3)
        assert (await store.sweep(keep, 100, dry=True)).calls == 4
        assert (await store.sweep(keep, 100)).calls == 4
        assert [bool(await seqs(store, f"c{n}")) for n in range(8)] == [True] + [False] * 4 + [True] * 3


async def test_a_sweep_waits_for_nobody(make: Make, server: PostgresServer, schema: str) -> None:
    async with opened(make) as store:
        for n in range(3):
            await ended(store, f"c{n}", at=200.0 + n)
        with psycopg.connect(server.url(), options=f"-c search_path={schema}") as other:
            other.execute("UPDATE calls SET priority = 1 WHERE id = 'c1'")
            swept = await store.sweep(Keep(calls=0), 10)
            assert swept.calls == 2
        assert (await store.sweep(Keep(calls=0), 10)).calls == 1


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


# Rows that somebody else wrote.


async def test_hostile_rows_are_shown_as_damaged_and_stop_nobody(make: Make, sql: Any) -> None:
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
            task = asyncio.create_task(store._open.pool.query("SELECT pg_sleep(0.05)"))
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
        assert len(store._open.pool._all) == 1, "and it was the same one all the time"
