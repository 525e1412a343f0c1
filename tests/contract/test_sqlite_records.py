"""Records in a SQLite file: it is migrated, the log refuses changes, and corrupt rows stop no call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.kit.waiting import PATIENCE

from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.ports import Keep, Query, Store, ToolHealth
from clicket.stores.sqlite import SqliteStore, schema
from clicket.testing.store_kit import ALIVE, append, created, creation, ended, news, opened, seqs
from clicket.testing.store_stats import health, recorded, stats

Make = Callable[[], Store]
_MOST = (1 << 63) - 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.db"


@pytest.fixture
def make(path: Path) -> Make:
    return partial(SqliteStore, path)


def sql(path: Path, text: str, *values: Any) -> list[Any]:
    """SQL from another client. (Not with Python's own SQLite: two SQLite libraries in one process break each other's locks.)"""
    with closing(apsw.Connection(str(path))) as connection:
        return list(connection.execute(text, values))


# Versions.


async def test_a_store_is_migrated_with_all_that_is_in_it(
    path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(make) as store:
        await created(store, "a")
    with monkeypatch.context() as patch:
        patch.setattr(
            schema, "_MIGRATIONS", (*schema._MIGRATIONS, ("ALTER TABLE calls ADD COLUMN more TEXT", "no SQL"))
        )
        with pytest.raises(StoreUnavailable):
            await make().open(ALIVE)
    assert sql(path, "PRAGMA user_version") == [(schema.VERSION,)]
    async with opened(make) as store:
        assert await seqs(store, "a") == [1]
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_MIGRATIONS", (*schema._MIGRATIONS, ("ALTER TABLE calls ADD COLUMN more TEXT",)))
        async with opened(make) as store:
            assert await seqs(store, "a") == [1]
            await created(store, "b")
    assert sql(path, "SELECT id, more FROM calls ORDER BY key") == [("a", None), ("b", None)]
    with pytest.raises(StoreUnavailable, match="newer clicket"):
        await make().open(ALIVE)


async def test_a_store_with_tables_of_another_version_is_refused_and_left_alone(path: Path, make: Make) -> None:
    async with opened(make):
        pass
    sql(path, "ALTER TABLE tool_health RENAME TO standings")
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match=r"other tables than that.*the clicket that wrote it"):
        await make().open(ALIVE)
    assert path.read_bytes() == before


# The log.


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET body = x'00'",
        "UPDATE audit SET number = number + 10",
        "DELETE FROM audit WHERE number = 1",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit (number, at, body) VALUES (1, 0.0, x'00')",
        "REPLACE INTO audit (number, at, body) VALUES (2, 0.0, x'00')",
    ],
)
async def test_the_log_refuses_every_change(statement: str, path: Path, make: Make) -> None:
    async with opened(make) as store:
        await store.audit([b"1", b"2"])
        with pytest.raises(apsw.ConstraintError, match="only grows"):
            sql(path, statement)
        await store.audit([b"3"])
        assert [(line.number, line.body) for line in await store.audited()] == [(3, b"3"), (2, b"2"), (1, b"1")]


# Waiting calls.


@pytest.mark.parametrize("wanted", [{}, {"caller": "me"}, {"before": 500}, {"active": True, "since": 1.0}])
async def test_waiting_calls_are_found_without_reading_all_calls(
    wanted: dict[str, Any], path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Any]] = []

    def note(connection: apsw.Connection, clause: str, values: Any) -> list[Any]:
        asked.append((clause, values))
        return []

    monkeypatch.setattr("clicket.stores.sqlite.listing.select", note)
    async with opened(make) as store:
        await store.history(Query(waiting_for="approval", **wanted))
    ((clause, values),) = asked
    plan = [row[3] for row in sql(path, f"EXPLAIN QUERY PLAN SELECT key FROM calls {clause}", *values)]
    assert len(plan) == 1, "one index both filters and sorts"
    assert "calls_asking" in plan[0]


# Rows that another program wrote.


async def test_numbers_that_cannot_grow_stop_no_call(path: Path, make: Make) -> None:
    async with opened(make) as store:
        await recorded(store, "a", stats("failed"))
        for number in (_MOST, -_MOST):
            sql(
                path,
                "UPDATE tool_health SET completions = ?1, failures = ?1, consecutive_failures = ?1, version = ?1",
                number,
            )
            sql(path, "UPDATE figures SET count = ?1, seconds = 1e308, least = -1e308, most = 1e308", number)
            await recorded(store, f"failed{number}", stats("failed"))
            await recorded(store, f"served{number}", stats("served"))
            found = await health(store)
            assert 1 <= found.failures < _MOST
            assert 1 <= found.completions < _MOST
            assert 2 <= found.version < _MOST


async def test_a_spoiled_row_is_reported_and_stops_no_call(path: Path, make: Make) -> None:
    async with opened(make) as store:
        await recorded(store, "a", stats("failed"))
        sql(path, "UPDATE tool_health SET last_error = CAST(x'ff' AS TEXT)")
        assert store.tool_health_now("", "t") is None
        with pytest.raises(StoreUnavailable, match="not what clicket wrote"):
            await store.tool_health("", "t")
        await recorded(store, "b", stats("failed"))
        assert (await health(store)).failures == 2, "the next failure overwrote the corrupt row"


async def test_a_tally_that_cannot_be_stored_harms_no_other(make: Make) -> None:
    """The error appears only inside the transaction: the store rolls the group back and writes each append alone."""
    async with opened(make) as store:
        changes = [creation(f"c{n}") for n in range(5)]
        for n, change in enumerate(changes):
            seconds = float("nan") if n == 2 else 1.0
            change.state, change.ended_at, change.stats = State.FAILED, 200.0, stats("failed", seconds=seconds)
        answers = await append(store, *changes)
        assert [answer is None for answer in answers] == [True, True, False, True, True]
        assert (await health(store)).failures == 4
        assert [figure.count for figure in await store.figures()] == [4]
        assert await store.load("c2") == []


async def test_text_in_a_tally_that_is_not_text_is_found_before_the_transaction(make: Make) -> None:
    async with opened(make) as store:
        bad, good = creation("bad"), creation("good")
        for change, cause in ((bad, "\ud800"), (good, "fine")):
            change.state, change.ended_at, change.stats = State.FAILED, 200.0, stats("failed", cause=cause)
        refused, taken = await append(store, bad, good)
        assert refused is not None
        assert refused.code == "unstorable"
        assert taken is None
        assert (await health(store)).last_error == "fine"


async def test_a_write_that_failed_is_counted_when_it_is_made_again(path: Path) -> None:
    async with opened(partial(SqliteStore, path, busy=0.05)) as store:
        end = news(await created(store, "a"), state=State.FAILED, ended_at=200.0, stats=stats("failed"))
        with closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN IMMEDIATE")
            (error,) = await append(store, end)
            assert isinstance(error, StoreUnavailable)
            assert store.tool_health_now("", "t") == [], "reads do not wait for the writer"
            other.execute("ROLLBACK")
        assert await append(store, end) == [None]
        assert ((await health(store)).failures, [f.count for f in await store.figures()]) == (1, [1])


# Synchronous reads.


@pytest.mark.parametrize("durability", ["process", "power"])
async def test_a_look_at_once_sees_what_was_answered(durability: str, path: Path) -> None:
    store = SqliteStore(path, durability=durability)
    assert store.tool_health_now("", "t") is None, "the store is not open yet"
    async with opened(lambda: store):
        assert store.tool_health_now("", "t") == []
        for n in range(20):
            await recorded(store, f"c{n}", stats("failed"))
            found = store.tool_health_now("", "t")
            assert found is not None
            assert [each.failures for each in found] == [n + 1]
        sql(path, "UPDATE tool_health SET status = 'maintenance'")
        found = store.tool_health_now("", "t")
        assert found is not None
        assert found[0].status == "maintenance", "including writes of another process"
    assert store.tool_health_now("", "t") is None, "the store is closed"


# Processes.

_ENDLESS = """
import asyncio, sys
from clicket.kernel import State
from clicket.stores.sqlite import SqliteStore
from clicket.testing.store_kit import ALIVE, append, creation
from clicket.testing.store_stats import stats

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open(ALIVE)
    for turn in range(1_000_000):
        changes = [creation(f"{sys.argv[2]}-{turn}-{n}") for n in range(turn % 5 + 1)]
        for n, change in enumerate(changes):
            change.state, change.ended_at, change.stats = State.COMPLETED, 200.0, stats("failed" if n % 2 else "completed")
        assert await append(store, *changes) == [None] * len(changes)
        print(turn, flush=True)

asyncio.run(main())
"""


async def test_what_killed_processes_counted_is_what_they_wrote(path: Path, make: Make) -> None:
    for name in ("first", "second"):
        with subprocess.Popen([sys.executable, "-c", _ENDLESS, str(path), name], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for _ in range(40):
                assert child.stdout.readline()
            child.kill()
    ((ends,),) = sql(path, "SELECT count(*) FROM calls WHERE ended_at IS NOT NULL")
    assert ends >= 200
    async with opened(make) as store:
        assert sum(figure.count for figure in await store.figures()) == ends
        found = await health(store)
        assert (found.completions + found.failures, found.version) == (ends, ends)


# Retention.


async def test_many_idle_tool_health_go_in_steps(path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.stores.sqlite.sweeps._FORGET_STEP", 7)
    async with opened(make) as store:
        for n in range(20):
            await store.put_tool_health("", f"t{n}", ToolHealth(tool="tool", updated_at=100.0 + n), 0)
        await ended(store, "a", at=50.0)
        swept = await store.sweep(Keep(since=60.0, health_since=118.0), 10)
        assert (swept.calls, swept.more) == (1, False)
        assert sql(path, "SELECT thread FROM tool_health ORDER BY thread") == [("t18",), ("t19",)]
        sql(path, "UPDATE tool_health SET updated_at = 0.0 WHERE thread = 't18'")
        await store.sweep(Keep(calls=10), 10)
        assert sql(path, "SELECT count(*) FROM tool_health") == [(2,)], "without a limit the sweep removes none"


# Small documents are written on the event loop, like small appends.


async def test_a_small_document_needs_no_thread_and_a_large_one_does(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(make) as store:
        writer = store._writer  # type: ignore[attr-defined]
        hops: list[str] = []
        there = writer._to_thread

        def hop(*job: Any) -> None:
            hops.append("hop")
            there(*job)

        monkeypatch.setattr(writer, "_to_thread", hop)
        assert await store.put_document("kind", "small", b"{}", 0)
        assert not await store.put_document("kind", "small", b"[]", 0), "the document exists already"
        assert hops == []
        assert await store.put_document("kind", "large", b'"' + b"x" * 100_000 + b'"', 0)
        assert hops == ["hop"]
        small, large = await store.document("kind", "small"), await store.document("kind", "large")
        assert small is not None
        assert small.body == b"{}"
        assert large is not None


async def test_a_document_waits_for_a_locked_file_in_the_thread(make: Make, path: Path) -> None:
    async with opened(make) as store:
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.ensure_future(store.put_document("kind", "key", b"{}", 0))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not writing.done()
        other.execute("ROLLBACK")
        assert await writing
        other.close()
        assert await store.document("kind", "key") is not None


async def test_a_document_does_not_overtake_the_thread(make: Make) -> None:
    async with opened(make) as store:
        writer = store._writer  # type: ignore[attr-defined]
        held, free = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            free.wait(PATIENCE)

        holding = asyncio.ensure_future(writer.alone(hold))
        await asyncio.to_thread(held.wait, 30)
        writing = asyncio.ensure_future(store.put_document("kind", "key", b"{}", 0))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not writing.done(), "two writes ran at once"
        free.set()
        assert await writing
        await holding
