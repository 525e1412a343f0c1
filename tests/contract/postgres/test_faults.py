"""PostgreSQL is killed, stopped, full, or cut off in the middle of an answer: no write is lost and none happens twice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.contract.postgres.kit import Make, impatient, through, until
from tests.kit.waiting import PATIENCE, eventually
from tests.postgres_line import a_line
from tests.postgres_server import PostgresServer, postgres_server

from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.ports import Append, CacheItem, CacheUse, Duplicate, Stale
from clicket.stores.postgres import PostgresStore
from clicket.testing.store_kit import ALIVE, ANY_TOOL, append, created, creation, news, opened

_probes = itertools.count(1)


def _run(server: PostgresServer, schema: str, text: str) -> list[Any]:
    options = f"-c search_path={schema} -c default_transaction_read_only=off"
    with psycopg.connect(server.url(), autocommit=True, options=options) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else []


# Cancelled callers.


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_caller_that_leaves_while_its_statement_is_prepared_spoils_no_connection(
    make: Make, turns: int
) -> None:
    async with opened(lambda: make(pool=1)) as store:
        reads: list[Callable[[], Any]] = [
            store.cache_stats, lambda: store.tool_health("c", "t"), lambda: store.events(1, "a", 0), store.figures,
        ]  # fmt: skip
        for read in reads:
            task = asyncio.ensure_future(read())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for read in reads:
            await read()


# Lost answers.


async def test_a_group_that_was_committed_is_not_written_twice(server: PostgresServer, schema: str) -> None:
    async with a_line(server) as line, opened(lambda: through(line, schema)) as store:
        first = await created(store, "a")
        item = CacheItem(key="k", body=b"1", tags=("t",), created_at=1.0, expires_at=1e12, accessed_at=1.0)
        name = "sha256-" + "ab" * 32
        await store.put_artifact(name, [b"x"])
        end = news(
            first, state=State.COMPLETED, ended_at=200.0, artifacts=((name, 1),), cache=CacheUse("k", False, item)
        )
        new, taken = creation("b"), creation("a")
        taken.events[0].data["n"] = 1
        empty = Append(first.call, 7, 1, None, State.PENDING, key=first.key)
        line.cut_next_answer(b"append(")
        assert [type(answer) for answer in await append(store, new, end, taken, empty)] == [
            type(None),
            type(None),
            Duplicate,
            Stale,
        ]
        assert line.cuts == 1
        assert new.key != 0
        assert [event.seq for event in await store.events(first.key, "a", 0)] == [1, 2]
        assert await append(store, news(new)) == [None]
        assert _run(server, schema, "SELECT count(*), count(DISTINCT id) FROM calls") == [(2, 2)]
        stats = await store.cache_stats()
        assert (stats.items, stats.misses) == (1, 1)
        weights = "SELECT bytes - (SELECT sum(length(body)) FROM events WHERE call = key) FROM calls ORDER BY key"
        assert _run(server, schema, weights) == [(1,), (0,)], "its artifact counts once"


async def test_calls_of_a_claim_whose_answer_was_lost_are_not_lost(server: PostgresServer, schema: str) -> None:
    async with a_line(server) as line, opened(lambda: through(line, schema)) as store:
        changes = [creation(f"c{n}") for n in range(20)]
        for change in changes:
            change.owned = False
        await append(store, *changes)
        assert [c.id for c in await store.claim_waiting(ANY_TOOL, 5)] == [f"c{n}" for n in range(5)]
        line.cut_next_answer(b"claim_waiting(")
        claimed = await store.claim_waiting(ANY_TOOL, 5)
        assert line.cuts == 1
        assert [c.id for c in claimed] == [f"c{n}" for n in range(5, 10)]
        assert {(c.fence, c.claims, c.taken_from) for c in claimed} == {(2, 2, None)}
        assert len(await store.owned()) == 10


async def test_a_claim_whose_reply_was_lost_is_repeated_by_the_next(server: PostgresServer, schema: str) -> None:
    async with a_line(server) as line, opened(lambda: through(line, schema)) as store:
        one, two = creation("one"), creation("two")
        one.owned = two.owned = False
        await append(store, one, two)
        assert await store.claim(10**6) is None
        line.cut_next_answer(b"claim(", said=b"\x03one")
        line.down = True
        claiming = asyncio.create_task(store.claim(one.key))
        await until(lambda: line.cuts == 1)
        assert _run(server, schema, "SELECT id FROM calls WHERE owner IS NOT NULL") == [("one",)]
        claiming.cancel()
        line.down = False
        await asyncio.gather(claiming, return_exceptions=True)
        assert sorted([c.id for c in await store.claim_waiting(ANY_TOOL, 10)]
                      + [c.id for c in await store.claim_waiting(ANY_TOOL, 10)]) == ["one", "two"]  # fmt: skip


async def test_slots_and_artifacts_survive_a_cut(server: PostgresServer, schema: str) -> None:
    async with a_line(server) as line, opened(lambda: through(line, schema)) as store:
        assert await store.hold("x", 1, 3)
        line.cut_next_answer(b"hold(")
        assert await store.hold("x", 3, 3)
        assert _run(server, schema, "SELECT held FROM slots") == [(3,)]
        name = "sha256-" + "cd" * 32
        line.cut_next_answer(b"hold(")  # the same connection serves the upload
        await store.put_artifact(name, [b"x" * 3_000_000])
        assert line.cuts == 2
        assert await store.read_artifact(name, 2_999_999, None) == b"x"
        assert _run(server, schema, "SELECT count(*) FROM pieces") == [(3,)]


async def test_a_statement_that_arrives_late_creates_nothing(server: PostgresServer, schema: str) -> None:
    """The store reported it as failed, so it must not take effect, not even if the network delivers it long after."""
    async with a_line(server) as line, opened(lambda: through(line, schema)) as store:
        await created(store, "before")
        line.hold_next_statement(b"append(")
        with impatient(store):
            (error,) = await append(store, creation("late"))
        assert isinstance(error, StoreUnavailable)
        await created(store, "after")
        assert await store.load("late") == []
        line.release()
        await until(lambda: line.late_answers == 1)
        assert await store.load("late") == []
        await created(store, "late")


async def test_what_may_have_been_created_is_erased_when_it_was_reported_as_failed(
    server: PostgresServer, schema: str
) -> None:
    async with a_line(server) as line, opened(lambda: through(line, schema)) as store:
        await created(store, "before")
        line.cut_next_answer(b"append(")
        line.down = True
        with impatient(store):
            failed = await append(store, creation("doubtful"), creation("too"))
        assert [type(error) for error in failed] == [StoreUnavailable, StoreUnavailable]
        assert line.cuts == 1
        assert _run(server, schema, "SELECT count(*) FROM calls WHERE id <> 'before'") == [(2,)]
        line.down = False
        await created(store, "after")
        assert await store.load("doubtful") + await store.load("too") == []
        assert _run(server, schema, "SELECT count(*) FROM events") == [(2,)]


# The server stops.


async def _chain(store: PostgresStore, name: str, stop: asyncio.Event) -> list[tuple[Append, list[int]]]:
    """Calls with a few events each, one after the other; returns the acknowledged event numbers by call."""
    acked: list[tuple[Append, list[int]]] = []
    for number in itertools.count():
        if stop.is_set():
            return acked
        change = creation(f"{name}-{number}")
        seqs: list[int] = []
        for _ in range(4):
            (error,) = await append(store, change)
            assert error is None, error
            seqs += [event.seq for event in change.events]
            change = news(change, number=2)
        acked.append((change, seqs))
    raise AssertionError


def _terminate_all(server: PostgresServer) -> None:
    _run(server, "public", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
         "AND backend_type = 'client backend'")  # fmt: skip


def _kill(server: PostgresServer) -> None:
    server.kill()
    server.start()


@pytest.mark.parametrize(
    "fault", [lambda s: s.restart(immediate=True), _kill, _terminate_all], ids=["restart", "kill", "terminate"]
)
async def test_appends_outlive_the_server(own: PostgresServer, fault: Callable[[PostgresServer], None]) -> None:
    store = PostgresStore(own.url(), timeout=60.0)
    async with opened(lambda: store):
        stop = asyncio.Event()
        chains = [asyncio.create_task(_chain(store, f"c{n}", stop)) for n in range(8)]
        for _ in range(3):
            seen = _count(own)
            await until(lambda seen=seen: _count(own) > seen + 20)  # type: ignore[misc]  # a default argument
            await asyncio.to_thread(fault, own)
        stop.set()
        acked = [each for chain in await asyncio.gather(*chains) for each in chain]
        assert len(acked) > 60
        for change, wanted in acked:
            (stored,) = await store.load(change.id)
            assert [event.seq for event in stored.events] == wanted
        assert _count(own) == len(acked)
        assert await store.hold("x", 1, 1)
        assert (await store.cache_stats()).items == 0


def _count(server: PostgresServer) -> int:
    return int(_run(server, "clicket", "SELECT count(*) FROM calls")[0][0])


async def test_a_server_that_hangs_does_not_block_the_loop(own: PostgresServer) -> None:
    store = PostgresStore(own.url(), timeout=60.0)
    async with opened(lambda: store):
        first = await created(store, "a")
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        own.pause()
        try:
            answer: asyncio.Future[ClicketError | None] = asyncio.get_running_loop().create_future()
            store.cache_get("k", 1.0, lambda item, error: answer.set_result(error))
            with impatient(store):
                results = await asyncio.gather(
                    append(store, news(first), creation("lost")),
                    store.load("a"),
                    store.hold("x", 1, 1),
                    store.claim_waiting(ANY_TOOL, 1),
                    store.renew(),
                    answer,
                    return_exceptions=True,
                )
        finally:
            own.resume()
        assert [type(error) for error in results[0]] == [StoreUnavailable, StoreUnavailable]  # type: ignore[union-attr]
        assert [type(result) for result in results[1:]] == [StoreUnavailable] * 5
        assert "no answer" in str(results[1])
        assert ticks > 10, "the event loop was not blocked"
        ticking.cancel()
        await until(lambda: _works(store))
        assert await store.load("lost") == [], "the store reported a failure"
        (stored,) = await store.load("a")
        assert [event.seq for event in stored.events] in ([1], [1, 2]), "the journal checks what was stored"


async def _works(store: PostgresStore) -> bool:
    change = creation(f"probe{next(_probes)}")
    return await append(store, change) == [None]


async def test_closing_does_not_wait_for_a_server_that_hangs(own: PostgresServer) -> None:
    store = PostgresStore(own.url(), timeout=60.0)
    await store.open(ALIVE)
    await created(store, "a")
    own.pause()
    try:
        async with asyncio.timeout(PATIENCE):
            with impatient(store):
                await store.close()
    finally:
        own.resume()


async def test_opening_waits_for_a_server_that_starts(own: PostgresServer) -> None:
    own.stop()
    with pytest.raises(StoreUnavailable, match="refused"):
        await PostgresStore(own.url(), timeout=0.2).open(ALIVE)
    store = PostgresStore(own.url(), timeout=60.0)
    opening = asyncio.create_task(store.open(ALIVE))
    await asyncio.to_thread(own.start)
    await opening
    await created(store, "a")
    await store.close()


# The server refuses.


@pytest.mark.parametrize(
    ("code", "words"),
    [("53100", "disk is full"), ("53200", "out of memory"), ("57014", "in time"), ("40P01", "waited for each other")],
)
async def test_trouble_of_the_server_is_named_and_outlived(
    server: PostgresServer, schema: str, code: str, words: str
) -> None:
    store = PostgresStore(f"{server.url()}?schema={schema}", timeout=60.0)
    async with opened(lambda: store):
        await created(store, "a")
        _run(server, schema, f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' "
             f"USING ERRCODE = '{code}'; END $$; CREATE TRIGGER fail BEFORE INSERT ON events EXECUTE FUNCTION fail()")  # fmt: skip
        with impatient(store):
            (error,) = await append(store, creation("b"))
        assert isinstance(error, StoreUnavailable)
        assert words in str(error)
        waiting = asyncio.create_task(append(store, creation("c")))
        _run(server, schema, "DROP TRIGGER fail ON events")
        await waiting
        await created(store, "d")
        assert await store.load("b") == []


async def test_too_many_connections_are_named_and_outlived() -> None:
    with postgres_server(max_connections="8", superuser_reserved_connections="0") as small:
        store = PostgresStore(small.url(), timeout=60.0)
        async with opened(lambda: store):
            await created(store, "a")
            await eventually(lambda: store.bus.trouble is None)
            hogs = []
            with pytest.raises(psycopg.OperationalError):
                while True:
                    hogs.append(psycopg.connect(small.url()))
            with pytest.raises(StoreUnavailable, match="max_connections"):
                await PostgresStore(small.url(), timeout=0.5).open(ALIVE)
            await asyncio.gather(*(store.load("a") for _ in range(20)))  # over the connections that the pool still has
            await created(store, "b")
            for hog in hogs:
                hog.close()
            async with opened(lambda: PostgresStore(small.url(), timeout=60.0)) as other:
                assert len(await other.load("b")) == 1


async def test_missing_tables_are_reported_at_once(server: PostgresServer, schema: str) -> None:
    store = PostgresStore(f"{server.url()}?schema={schema}", timeout=60.0)
    async with opened(lambda: store):
        await created(store, "a")
        _run(server, schema, f"DROP SCHEMA {schema} CASCADE")
        (error,) = await append(store, creation("b"))
        assert isinstance(error, StoreUnavailable)
        with pytest.raises(StoreUnavailable, match="as clicket made them"):
            await store.load("a")


async def test_a_primary_that_became_read_only(server: PostgresServer, schema: str) -> None:
    store = PostgresStore(f"{server.url()}?schema={schema}", timeout=60.0)
    async with opened(lambda: store):
        await created(store, "a")
        _run(server, schema, "ALTER DATABASE postgres SET default_transaction_read_only = on")
        try:
            _terminate_all(server)
            with impatient(store):
                (error,) = await append(store, creation("b"))
            assert isinstance(error, StoreUnavailable)
            assert "takes no writes" in str(error)
            assert len(await store.load("a")) == 1
        finally:
            _run(server, schema, "ALTER DATABASE postgres RESET default_transaction_read_only")
            _terminate_all(server)
        await created(store, "b")


async def test_a_row_that_somebody_locks_is_not_waited_for_for_ever(server: PostgresServer, schema: str) -> None:
    for timeout in (1.0, 10.0, 100.0):  # a slow machine gets more, until everything but the locked row is in time
        if await gives_a_locked_row_up(server, schema, timeout):
            return
    pytest.fail("the server answered nothing in time")


async def gives_a_locked_row_up(server: PostgresServer, schema: str, timeout: float) -> bool:
    """False if the server was too slow for this timeout before or after the row was locked."""
    store, first = PostgresStore(f"{server.url()}?schema={schema}", timeout=timeout), creation(f"a{timeout}")
    try:
        async with opened(lambda: store):
            if await append(store, first) != [None]:
                return False
            with psycopg.connect(server.url(), options=f"-c search_path={schema}") as other:
                other.execute("SELECT * FROM calls FOR UPDATE")
                (error,) = await append(store, news(first))
                assert isinstance(error, StoreUnavailable)
            return await append(store, news(first)) == [None]
    except StoreUnavailable:
        return False


async def test_statements_outlive_a_migration_by_somebody_else(server: PostgresServer, schema: str) -> None:
    store = PostgresStore(f"{server.url()}?schema={schema}", timeout=30.0, pool=1)
    async with opened(lambda: store):
        await created(store, "a")
        assert [stored.fence for stored in await store.load("a")] == [1]
        _run(server, schema, "ALTER TABLE calls ALTER COLUMN fence TYPE bigint")
        assert [stored.fence for stored in await store.load("a")] == [1]
        await created(store, "b")
