"""One call at a time in a SQLite file: appends written before `append` returns, units in the call's own row, and the log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.kit.lone_store import LoneStore
from tests.kit.waiting import PATIENCE

from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model.unit import End, Start
from clicket.ports import Append, CallRow, OutcomeStats, Query, Store, ToolHealth
from clicket.stores.sqlite import SqliteStore, checkpoint, writer
from clicket.testing.store_kit import append, created, creation, ended, news, opened
from clicket.testing.store_stats import health, stats

BIG = {"text": "x" * 3_000}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.db"


@pytest.fixture
def make(path: Path) -> Callable[[], Store]:
    def made() -> Store:
        return LoneStore(path)

    return made


def at_once(store: Store, change: Append) -> list[ClicketError | None]:
    """The answers that arrived before `append` returned."""
    answers: list[ClicketError | None] = []
    store.append(change, lambda _, error: answers.append(error))
    return answers


def plain(n: int) -> tuple[Append, Append]:
    """A call as the engine writes it."""
    start = Start({"tool": "tool", "thread": "t"}, {"n": n}, 100.0, 1e-5, 1e-5, 1e-5, 100.1, 1)
    first = Append(CallRow(f"plain{n}", "t", "", "tool", 100.0), 0, 1, start, State.RUNNING)
    end = End(8, 100.2, State.RUNNING, 1e-5, 1e-5, 1e-5, 0.2, n)
    outcome = OutcomeStats("tool", "completed", "", -3, 0.2, "completed", 100.2)
    return first, Append(first.call, 7, 1, end, State.COMPLETED, ended_at=100.2, stats=outcome)


def run_plain(store: Store, n: int) -> None:
    first, last = plain(n)
    assert at_once(store, first) == [None]
    last.key = first.key
    assert at_once(store, last) == [None]


# Written before `append` returns.


async def test_an_append_is_committed_before_append_returns(make: Callable[[], Store], path: Path) -> None:
    async with opened(make) as store:
        for n in range(3):
            run_plain(store, n)
            with closing(apsw.Connection(str(path))) as other:
                assert other.execute("SELECT count(*) FROM calls WHERE state = 'completed'").get == n + 1
        assert (await health(store)).completions == 3
        assert [figure.count for figure in await store.figures()] == [3]
        (stored,) = await store.load("plain2")
        assert [event.seq for event in stored.events] == list(range(1, 12))


async def test_a_plain_call_is_two_transactions_of_eight_statements(make: Callable[[], Store]) -> None:
    async with opened(make) as store:
        run_plain(store, 0)
        order: list[str] = []
        connection = store._writer.connection  # type: ignore[attr-defined]
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: order.append(event["sql"]))
        run_plain(store, 1)
        connection.trace_v2(0)
        assert [sql.split("(")[0].split(" SET")[0] for sql in order] == [
            "BEGIN IMMEDIATE",
            "INSERT INTO calls",
            "COMMIT",
            "BEGIN IMMEDIATE",
            "UPDATE calls",
            "UPDATE tool_health",
            "UPDATE figures",
            "COMMIT",
        ]


async def test_a_refused_append_is_answered_at_once_and_leaves_nothing(make: Callable[[], Store]) -> None:
    async with opened(make) as store:
        first, last = plain(0)
        assert at_once(store, first) == [None]
        (error,) = at_once(store, plain(0)[0])
        assert error is not None
        assert error.code == "duplicate"
        last.key, last.fence = first.key, 7
        (error,) = at_once(store, last)
        assert error is not None
        assert error.code == "stale"
        last.fence, last.stats = 1, stats("completed", seconds=float("nan"))
        (error,) = at_once(store, last)
        assert error is not None
        assert error.code == "store_unavailable"
        assert await store.tool_health("", "t") == []
        assert await store.figures() == []
        assert len((await store.load("plain0"))[0].events) == 7


async def test_a_locked_file_is_waited_for_in_the_thread_and_order_is_kept(
    make: Callable[[], Store], path: Path
) -> None:
    async with opened(make) as store:
        order: list[str] = []
        with closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN IMMEDIATE")
            for name in "abc":
                store.append(creation(name), lambda change, error: order.append(f"{change.id}{error or ''}"))
            await asyncio.sleep(0.05)
            assert order == []
            other.execute("ROLLBACK")
        while len(order) < 3:
            await asyncio.sleep(0.001)
        assert order == ["a", "b", "c"]
        assert at_once(store, creation("d")) == [None], "and then on the event loop again"


async def test_an_append_does_not_overtake_a_job(make: Callable[[], Store]) -> None:
    async with opened(make) as store:
        job = asyncio.ensure_future(store.audit([b"1"]))
        await asyncio.sleep(0)
        change = creation("a")
        assert at_once(store, change) == []
        assert await append(store, creation("b")) == [None]
        await job
        assert change.key > 0


async def test_callbacks_may_append(make: Callable[[], Store]) -> None:
    async with opened(make) as store:
        first, last = plain(0)
        answers: list[Any] = []

        def go_on(change: Append, error: ClicketError | None) -> None:
            answers.append(error)
            last.key = change.key
            store.append(last, lambda _, error: answers.append(error))

        store.append(first, go_on)
        assert answers == [None, None]


async def test_a_very_slow_write_moves_the_next_ones_to_the_thread(
    make: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(make) as store:
        monkeypatch.setattr(writer, "_SLOW", -1.0)
        monkeypatch.setattr(writer, "_VERY_SLOW", -1.0)
        assert at_once(store, creation("a")) == [None]
        assert at_once(store, creation("b")) == []
        assert await append(store, creation("c")) == [None]


async def test_two_slow_writes_move_the_next_ones_to_the_thread(
    make: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(make) as store:
        monkeypatch.setattr(writer, "_SLOW", -1.0)
        monkeypatch.setattr(writer, "_VERY_SLOW", 60.0)
        monkeypatch.setattr(writer, "_SLOW_AGAIN", 60.0)
        assert at_once(store, creation("a")) == [None]
        assert at_once(store, creation("b")) == [None], "one slow write may be the scheduler's"
        assert at_once(store, creation("c")) == []
        assert await append(store, creation("d")) == [None]


# Detecting writes of another process.


async def test_the_stamp_changes_with_commits_of_others_alone(make: Callable[[], Store], path: Path) -> None:
    store = make()
    assert store.health_stamp() is None
    async with opened(lambda: store):
        first = store.health_stamp()
        assert first is not None
        for n in range(50):
            run_plain(store, n)
            await store.put_tool_health("", "mine", ToolHealth(tool=f"tool{n}"), 0)
            assert store.health_stamp() == first
        async with opened(partial(SqliteStore, path)) as other:
            opened_at = store.health_stamp()
            assert opened_at != first, "the store registered its owner"
            await other.put_tool_health("", "t", ToolHealth(tool="other"), 0)
            changed = store.health_stamp()
            assert changed != opened_at
            run_plain(store, 100)
            assert store.health_stamp() == changed
            await other.put_tool_health("", "t", ToolHealth(tool="another"), 0)
            run_plain(store, 101)
            assert store.health_stamp() != changed, "our own commit does not hide another process's commit"
    assert store.health_stamp() is None


async def test_there_is_no_stamp_while_the_thread_writes(make: Callable[[], Store]) -> None:
    async with opened(make) as store:
        held, free = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            free.wait(PATIENCE)

        holding = asyncio.ensure_future(store._writer.alone(hold))  # type: ignore[attr-defined]
        await asyncio.to_thread(held.wait, 30)
        assert store.health_stamp() is None
        free.set()
        await holding
        assert store.health_stamp() is not None


async def test_a_hint_comes_although_stamps_were_read(make: Callable[[], Store], path: Path) -> None:
    async with opened(make) as store, opened(partial(SqliteStore, path)) as other:
        await asyncio.sleep(0.06)
        hinted = asyncio.Event()
        store.on_hint = lambda kind, key: hinted.set()
        await created(other, "a")
        store.health_stamp()
        await asyncio.wait_for(hinted.wait(), PATIENCE)


# Units in the call's row and in rows of events.


@pytest.mark.parametrize("first_is_long", [False, True])
@pytest.mark.parametrize("last_is_long", [False, True])
@pytest.mark.parametrize("between", [0, 1, 3])
@pytest.mark.parametrize("late", [0, 2])
async def test_units_are_read_in_order_wherever_they_are(
    first_is_long: bool, last_is_long: bool, between: int, late: int, make: Callable[[], Store]
) -> None:
    def grown(change: Append, is_long: bool) -> Append:
        if is_long:
            change.unit.rows()[0][4].update(BIG)  # type: ignore[union-attr]
        return change

    async with opened(make) as store:
        last = grown(creation("a"), first_is_long)
        assert await append(store, last) == [None]
        for n in range(between):
            request: dict[str, Any] = {"fence": -1} if n == 1 else {}
            last = news(last, number=2, **request)
            assert await append(store, last) == [None]
            last.fence = 1
        last = grown(news(last, number=2, state=State.COMPLETED, ended_at=200.0), last_is_long)
        assert await append(store, last) == [None]
        for _ in range(late):
            last = news(last, state=State.COMPLETED, ended_at=200.0)
            assert await append(store, last) == [None]
        total = last.last
        (stored,) = await store.load("a")
        assert stored.damaged is None
        assert [event.seq for event in stored.events] == list(range(1, total + 1))
        for after in range(total + 2):
            found = await store.events(stored.key, "a", after)
            assert [event.seq for event in found] == list(range(after + 1, total + 1))


# Which index serves which query.


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"state": State.FAILED}, "calls_ended_badly"),
        ({"state": State.CANCELLED}, "calls_ended_badly"),
        ({"state": State.TIMEOUT, "before": 7}, "calls_ended_badly"),
        ({"state": State.RUNNING}, "calls_live"),
        ({"state": State.RETRYING, "before": 7}, "calls_live"),
        ({"active": True}, "calls_live"),
        ({"thread": "t", "state": State.COMPLETED}, "calls_thread"),
    ],
)
async def test_states_are_found_without_looking_at_all_calls(
    wanted: dict[str, Any], index: str, path: Path, make: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Any]] = []

    def note(connection: apsw.Connection, clause: str, values: Any) -> list[Any]:
        asked.append((clause, values))
        return []

    monkeypatch.setattr("clicket.stores.sqlite.listing.select", note)
    async with opened(make) as store:
        await store.history(Query(**wanted))
    ((clause, values),) = asked
    with closing(apsw.Connection(str(path))) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN SELECT key FROM calls {clause}", values)]
    assert any(index in step for step in plan)
    assert not any(step.startswith("SCAN calls") and "INDEX" not in step for step in plan)


async def test_states_are_listed_newest_first(make: Callable[[], Store]) -> None:
    async with opened(make) as store:
        for n in range(4):
            await ended(store, f"done{n}")
            await created(store, f"open{n}")
            bad = news(await created(store, f"bad{n}"), state=State.FAILED, ended_at=200.0)
            assert await append(store, bad) == [None]
        for state, name in ((State.COMPLETED, "done"), (State.PENDING, "open"), (State.FAILED, "bad")):
            found = [stored.id for stored in await store.history(Query(state=state, limit=3))]
            assert found == [f"{name}{n}" for n in (3, 2, 1)]


# The log.


async def test_the_log_starts_anew_under_steady_writing(
    make: Callable[[], Store], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_CHECKPOINT_PAGES", 100)
    monkeypatch.setattr(checkpoint, "_LONG_LOG", 200)
    async with opened(make) as store:
        stamp = store.health_stamp()
        log = path.with_name("calls.db-wal")
        n = 0
        while n < 2_000 or log.stat().st_size > n * 5 * 2048:  # a call writes about ten pages of 4096 bytes
            first, last = plain(n)
            assert await append(store, first) == [None]
            last.key = first.key
            assert await append(store, last) == [None]
            n += 1
        while (now := store.health_stamp()) is None:
            await asyncio.sleep(0.001)
        assert now == stamp, "a checkpoint does not count as a write of another process"
        with closing(apsw.Connection(str(path))) as other:
            assert other.pragma("integrity_check") == "ok"


async def test_a_checkpoint_that_fails_stops_no_append(
    make: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_CHECKPOINT_PAGES", 20)
    async with opened(make) as store:
        copier = store._checkpointer  # type: ignore[attr-defined]
        failures: list[str] = []

        def fail() -> bool:
            failures.append("failed")
            raise apsw.BusyError("no")

        monkeypatch.setattr(copier, "_run", fail)
        for n in range(200):
            await ended(store, f"c{n}")
        assert len(failures) > 3
