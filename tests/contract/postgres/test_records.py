"""Records beside calls in PostgreSQL: counted once whatever breaks, locked in one order, and an append-only log."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import psycopg
import pytest
from tests.contract.postgres.kit import Make, impatient, through
from tests.kit.waiting import PATIENCE
from tests.postgres_line import a_line
from tests.postgres_server import PostgresServer

from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.ports import Append, Keep, Stale, ToolHealth, Unstorable
from clicket.stores.postgres import PostgresStore
from clicket.stores.postgres import schema as schemas
from clicket.testing.store_kit import ALIVE, DEAD, append, created, creation, news, opened
from clicket.testing.store_stats import health, recorded, stats


def _ending(change: Append, **given: Any) -> Append:
    return news(change, state=State.FAILED, ended_at=200.0, stats=stats("failed", **given))


def _ended_at_once(id: str, *, weight: Any = "failed") -> Append:
    change = creation(id)
    change.state, change.ended_at, change.stats = State.FAILED, 200.0, stats(weight, seconds=0.25)
    return change


async def _counted(store: PostgresStore) -> int:
    return sum(figure.count for figure in await store.figures())


# Outcome stats.


async def test_an_outcome_and_what_it_adds_are_one_transaction(make: Make, sql: Any) -> None:
    async with opened(make) as store:
        changes = [await created(store, f"c{n}") for n in range(20)]
        assert await append(store, *map(_ending, changes)) == [None] * 20
        marks = " UNION ".join(f"SELECT xmin::text FROM {table}" for table in ("calls", "tool_health", "figures"))
        assert len(sql(marks)) == 1
        assert (await health(store)).consecutive_failures == 20


async def test_endings_of_a_group_that_are_refused_count_nothing(make: Make) -> None:
    async with opened(make) as store:
        changes = [await created(store, f"c{n}") for n in range(6)]
        ends = [_ending(change, at=300.0 + n) for n, change in enumerate(changes)]
        ends[1].fence = 7
        ends[4].expect = 3
        ends[5].stats = stats(at=400.0)
        answers = await append(store, *ends)
        assert [type(answer) for answer in answers] == [type(None), Stale, *[type(None)] * 2, Stale, type(None)]
        found = await health(store)
        assert (found.failures, found.consecutive_failures, found.completions, found.version) == (3, 0, 1, 4)
        assert (found.last_failure_at, found.last_success_at) == (303.0, 400.0)
        assert await _counted(store) == 4


async def test_a_group_whose_answer_was_lost_is_counted_once(server: PostgresServer, schema: str) -> None:
    async with a_line(server) as line, opened(lambda: through(line, schema)) as store:
        changes = [await created(store, f"c{n}") for n in range(5)]
        line.cut_next_answer(b"append(")
        group = [*map(_ending, changes[:4]), _ended_at_once("new"), _ended_at_once("new")]
        answers = await append(store, *group)
        assert line.cuts == 1
        assert [type(answer).__name__ for answer in answers] == [*["NoneType"] * 5, "NoneType"], "one creation, twice"
        found = await health(store)
        assert (found.failures, found.version, await _counted(store)) == (5, 5, 5)
        line.cut_next_answer(b"append(")
        assert await append(store, _ending(changes[4])) == [None]
        assert line.cuts == 2
        assert ((await health(store)).failures, await _counted(store)) == (6, 6)


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize("weight", ["failed", "served", "none"])
async def test_what_an_erased_call_added_is_taken_back(
    server: PostgresServer, schema: str, make: Make, touched: bool, weight: str
) -> None:
    async with (
        a_line(server) as line,
        opened(make) as other,
        opened(lambda: through(line, schema)) as store,
    ):
        if touched:
            await recorded(store, "before", stats("failed"))
        else:
            await created(store, "before")
        kept = (await other.tool_health("", "t"), await _counted(other))
        line.cut_next_answer(b"append(")
        line.down = True
        with impatient(store):
            (error,) = await append(store, _ended_at_once("doubtful", weight=weight))
        assert isinstance(error, StoreUnavailable)
        assert await _counted(other) == kept[1] + 1, "the write succeeded, but the client got no answer"
        line.down = False
        await store.renew()
        assert await other.load("doubtful") == []
        assert await _counted(other) == kept[1]
        found = await other.tool_health("", "t")
        assert [(s.failures, s.consecutive_failures, s.completions) for s in found] == [
            (s.failures, s.consecutive_failures, s.completions) for s in kept[0]
        ]
        if weight != "none" and touched:
            assert found[0].version > kept[0][0].version, "a version is never used twice"


async def test_groups_that_share_tools_never_wait_for_each_other_for_ever(
    make: Make, sql: Any, server: PostgresServer
) -> None:
    """Four processes end calls of the same tools in the same threads, in any order, while a fifth writes tool health."""
    tools, threads, turns = [f"tool{n}" for n in range(8)], ["t", "u"], 12
    stores = [make() for _ in range(4)]
    await asyncio.gather(*(store.open(ALIVE) for store in stores))

    async def end(store: PostgresStore, name: int) -> None:
        dice = random.Random(name)
        for turn in range(turns):
            changes = []
            for thread, tool in itertools.product(threads, tools):
                change = creation(f"{name}-{turn}-{tool}", thread=thread, tool=tool)
                change.state, change.ended_at, change.stats = State.FAILED, 200.0, stats("failed", tool=tool)
                changes.append(change)
            dice.shuffle(changes)
            assert await append(store, *changes) == [None] * len(changes)

    async def put(store: PostgresStore) -> int:
        written = 0
        for _ in range(turns):
            for known in await store.tool_health("", "t"):
                written += await store.put_tool_health("", "t", known, known.version)
        return written

    before = sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    async with opened(make) as fifth:
        *_, written = await asyncio.gather(*(end(store, n) for n, store in enumerate(stores)), put(fifth))
        for thread in threads:
            found = {each.tool: each for each in await fifth.tool_health("", thread)}
            assert sorted(found) == tools
            assert {each.failures for each in found.values()} == {4 * turns}
            extra = sum(each.version for each in found.values()) - len(tools) * 4 * turns
            assert extra == (written if thread == "t" else 0)
        assert await _counted(fifth) == len(tools) * len(threads) * 4 * turns
    await asyncio.gather(*(store.close() for store in stores))
    sql("SELECT pg_stat_clear_snapshot()")
    assert sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == before


async def test_what_is_counted_equals_what_ended_whatever_breaks(make: Make, sql: Any) -> None:
    """Two processes end calls, some at their creation, while their connections are cut again and again."""
    stop = asyncio.Event()

    async def end(store: PostgresStore, name: str) -> int:
        for number in itertools.count():
            if stop.is_set():
                return number
            change = creation(f"{name}-{number}")
            if number % 3:
                assert await append(store, change) == [None]
                change = news(change)
            change.state, change.ended_at = State.FAILED, 200.0
            change.stats = stats("completed" if number % 5 else "failed", tool=f"tool{number % 2}")
            assert await append(store, change) == [None]
        raise AssertionError

    cut = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND query LIKE '%append(%'"""
    async with opened(make) as one, opened(make) as two:
        tasks = [asyncio.create_task(end(store, f"{n}")) for n, store in enumerate((one, two) * 4)]
        cuts, seen = 0, 0
        async with asyncio.timeout(PATIENCE):
            while cuts < 12:
                ((ended,),) = sql("SELECT count(*) FROM calls WHERE ended_at IS NOT NULL")
                if ended >= seen + 40:
                    cuts, seen = cuts + sql(cut)[0][0], ended
                await asyncio.sleep(0.01)
            stop.set()
            total = sum(await asyncio.gather(*tasks))
        assert sql("SELECT count(*) FROM calls WHERE ended_at IS NOT NULL") == [(total,)]
        assert await _counted(one) == total
        found = await two.tool_health("", "t")
        assert sum(each.completions + each.failures for each in found) == total
        assert sum(each.version for each in found) == total


async def test_figures_outlive_their_owners(make: Make, sql: Any) -> None:
    async with opened(make) as one:
        async with opened(make) as two, opened(make, DEAD) as dead:
            for n, store in enumerate((one, two, dead)):
                await recorded(store, f"c{n}", stats(seconds=float(n)))
            await one.claim_orphans(frozenset({"tool"}), 10)
            (figure,) = await one.figures()
            assert (figure.count, figure.seconds, figure.least, figure.most) == (3, 3.0, 0.0, 2.0)
            assert sql("SELECT count(*) FROM figures") == [(3,)], "one row per owner, also for the dead one"
        assert await one.figures() == [figure]
    assert sql("SELECT owner, count, seconds FROM figures") == [(0, 3, 3.0)]


# Writes with a ticket.


async def test_what_is_written_beside_calls_is_written_once(server: PostgresServer, schema: str) -> None:
    async with a_line(server) as line, opened(lambda: through(line, schema)) as store:
        line.cut_next_answer(b"put_document(")
        assert await store.put_document("kind", "key", b"1", 0)
        line.cut_next_answer(b"put_document(")
        assert await store.put_document("kind", "key", b"2", 1)
        line.cut_next_answer(b"put_document(")
        assert await store.put_document("kind", "key", b"3", None)
        assert line.cuts == 3
        document = await store.document("kind", "key")
        assert document is not None
        assert (document.body, document.version) == (b"3", 3)
        line.cut_next_answer(b"delete_document(")
        assert await store.delete_document("kind", "key")
        assert line.cuts == 4
        assert not await store.delete_document("kind", "key")
        for version in range(2):
            line.cut_next_answer(b"put_tool_health(")
            assert await store.put_tool_health("", "t", ToolHealth(tool="tool"), version)
        assert (line.cuts, (await health(store)).version) == (6, 2)
        for number in range(1, 3):
            line.cut_next_answer(b"add_to_audit(")
            await store.audit([b"%d" % number, b"more"])
        assert line.cuts == 8
        assert [line.body for line in await store.audited()] == [b"more", b"2", b"more", b"1"]


async def test_a_write_that_arrives_late_does_nothing(server: PostgresServer, schema: str) -> None:
    async with a_line(server) as line, opened(lambda: through(line, schema)) as store:
        await store.audit([b"before"])
        line.hold_next_statement(b"add_to_audit(")
        with impatient(store), pytest.raises(StoreUnavailable):
            await store.audit([b"late"])
        await store.audit([b"after"])
        line.release()
        async with asyncio.timeout(PATIENCE):
            while line.late_answers == 0:
                await asyncio.sleep(0.01)
        assert [each.body for each in await store.audited()] == [b"after", b"before"]


# The log, names, and retention.


@pytest.mark.parametrize(
    "change", ["UPDATE audit SET body = ''", "DELETE FROM audit", "DELETE FROM audit WHERE false", "TRUNCATE audit"]
)
async def test_the_server_refuses_to_change_the_log(make: Make, sql: Any, change: str) -> None:
    async with opened(make) as store:
        await store.audit([b"1"])
        with pytest.raises(psycopg.Error, match="only ever added to"):
            sql(change)
        assert [line.body for line in await store.audited()] == [b"1"]


async def test_names_that_cannot_be_stored_find_nothing(make: Make) -> None:
    async with opened(make) as store:
        for bad in ("a\0b", "\ud800"):
            assert await store.tool_health(bad, bad) == []
            assert await store.figures(bad) == []
            assert await store.document(bad, bad) is None
            assert await store.documents("kind", after=bad) == []
            assert not await store.delete_document("kind", bad)
            with pytest.raises(Unstorable):
                await store.put_document("kind", bad, b"1", 0)
            with pytest.raises(Unstorable):
                await store.put_tool_health("", bad, ToolHealth(tool="tool"), 0)
            assert await store.put_tool_health("", "t", ToolHealth(tool=f"{bad!a}", reason=bad, last_error=bad), 0)
        assert [each.reason for each in await store.tool_health("", "t")] == ["?", "a\ufffdb"]


async def test_keys_of_documents_may_be_longer_than_an_index_takes(make: Make) -> None:
    long = "".join(random.Random(1).choices("abcdefghij\U0001f600", k=5_000))  # it compresses badly
    keys = sorted([long, long + "a", long[:200], long[:201], long[:199] + "z", "a", "z"])
    async with opened(make) as store:
        for key in keys:
            assert await store.put_document("kind", key, b"", 0)
        assert [document.key for document in await store.documents("kind")] == keys
        found: list[str] = []
        while page := await store.documents("kind", after=found[-1] if found else "", limit=2):
            found += [document.key for document in page]
        assert found == keys


async def test_old_tool_health_is_not_waited_for(make: Make, server: PostgresServer, schema: str) -> None:
    async with opened(make) as store:
        for n in range(3):
            await store.put_tool_health("", "t", ToolHealth(tool=f"tool{n}", updated_at=float(n)), 0)
        options = f"-c search_path={schema}"
        with psycopg.connect(server.url(), options=options) as connection:
            connection.execute("SELECT FROM tool_health WHERE tool = 'tool0' FOR UPDATE")
            async with asyncio.timeout(PATIENCE):
                await store.sweep(Keep(health_since=2.0), 10)
            assert [each.tool for each in await store.tool_health("", "t")] == ["tool0", "tool2"]
        await store.sweep(Keep(health_since=2.0), 10)
        assert [each.tool for each in await store.tool_health("", "t")] == ["tool2"]


# Versions.


async def test_tables_are_migrated_and_functions_made_anew(
    make: Make, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(make) as store:
        await recorded(store, "a", stats())
    more = "ALTER TABLE calls ADD COLUMN more text"
    with monkeypatch.context() as patch:
        patch.setattr(schemas, "VERSION", 2)
        patch.setattr(schemas, "_MIGRATIONS", [*schemas._MIGRATIONS, (2, "more", f"{more}; no SQL")])
        with pytest.raises(StoreUnavailable, match="left as it was"):
            await make().open(ALIVE)
        assert sql("SELECT number FROM clicket_migrations") == [(1,)]
        patch.setattr(schemas, "_MIGRATIONS", [*schemas._MIGRATIONS[:1], (2, "more", more)])
        patch.setattr(
            schemas,
            "_FUNCTIONS",
            [*schemas._FUNCTIONS, "CREATE FUNCTION more() RETURNS text LANGUAGE sql AS 'SELECT 1'"],
        )
        async with opened(make) as store:
            await recorded(store, "b", stats())
            assert await _counted(store) == 2
    assert sql("SELECT id, more FROM calls ORDER BY key") == [("a", None), ("b", None)]
    names = "SELECT proname FROM pg_proc WHERE proname IN ('append', 'more') AND pronamespace = current_schema()::regnamespace"
    assert sorted(sql(names)) == [("append",), ("more",)]
    with pytest.raises(StoreUnavailable, match="newer clicket"):
        await make().open(ALIVE)
