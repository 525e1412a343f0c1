"""A page of history costs the same however many calls the store holds; a search that ends early says so, and continues."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.kit.many_calls import fill
from tests.scenarios.kit import make, sqlite_url

from clicket import Runtime
from clicket.model import Page
from clicket.ports import Query
from clicket.runtime.calls import history as call_history
from clicket.runtime.views.threads import list_threads
from clicket.stores.sqlite import SqliteStore
from clicket.testing.store_kit import opened

SCANNED = 200
FILTERS: list[dict[str, Any]] = [
    {"until": 1_100.0},
    {"since": 1_100.0, "order": "asc", "tool": "tool1"},
    {"tool": "tool1", "state": "failed"},
    {"tool": "tool1", "state": "timeout"},
    {"thread": "t1", "state": "timeout"},
    {"tool": "tool1", "state": "completed", "id_contains": "x"},
    {"id_contains": "nowhere"},
    {"request_id": "nowhere"},
    {"request_id": "r7"},
    {"code": "nothing"},
    {"code": "tool_error", "tool": "tool1"},
    {"metadata": {"user": "nobody"}},
    {"metadata": {"n": -1}, "thread": "t1"},
]


@pytest.fixture
async def rt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runtime]:
    monkeypatch.setattr(call_history, "MAX_SCANNED", SCANNED)
    monkeypatch.setattr("clicket.runtime.calls.unknown_outcomes.MAX_SCANNED", SCANNED)
    monkeypatch.setattr("clicket.stores.sqlite.appends.KEY_BLOCK", 64)  # finer than in a store of millions
    async with make([], sqlite_url(tmp_path)) as runtime:
        yield runtime


def _steps(store: Any) -> Callable[[], int]:
    """Counts the steps of SQLite's virtual machine in the connection that reads."""
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    store._reader.set_progress_handler(step, 10)
    return lambda: count


async def test_a_page_looks_at_as_many_calls_in_a_big_store_as_in_a_small_one(rt: Runtime) -> None:
    steps = _steps(rt.store)

    async def costs() -> list[int]:
        found = []
        for which in FILTERS:
            before = steps()
            await rt.history(limit=20, **which)
            found.append(steps() - before)
        before = steps()
        await rt.unknown(limit=20)
        return [*found, steps() - before]

    await fill(rt.store, 0, 1_000, failed=3)
    small = await costs()
    await fill(rt.store, 1_000, 3_000, failed=3)
    big = await costs()
    grown = {
        str(which): (a, b) for which, a, b in zip([*FILTERS, "unknown"], small, big, strict=True) if b > a * 1.5 + 20
    }
    assert not grown, "steps in a store of 1,000 calls, and of 4,000"


async def _all(rt: Runtime, **which: Any) -> tuple[list[str], list[Page]]:
    pages = [await rt.history(limit=50, **which)]
    while pages[-1].cursor is not None:
        pages.append(await rt.history(limit=50, cursor=pages[-1].cursor, **which))
    return [record.id for page in pages for record in page.items], pages


async def test_pages_that_end_early_say_so_and_lead_to_every_call(rt: Runtime) -> None:
    await fill(rt.store, 0, 700)
    found, pages = await _all(rt, id_contains="69")
    assert found == ["c699", "c698", "c697", "c696", "c695", "c694", "c693", "c692", "c691", "c690", "c669", "c569", "c469",
        "c369", "c269", "c169", "c69"]  # fmt: skip
    assert [page.searched_to for page in pages] == [1_500.0, 1_300.0, 1_100.0, None], (
        "when the last call that was looked at was made"
    )
    oldest, pages = await _all(rt, metadata={"user": "u650"}, order="asc")
    assert (oldest, [page.searched_to for page in pages]) == (["c650"], [1_199.0, 1_399.0, 1_599.0, None])
    assert (await _all(rt, request_id="r3"))[0] == ["c3"]
    assert (await _all(rt, until=1_005.0))[0] == ["c4", "c3", "c2", "c1", "c0"]
    several, pages = await _all(rt, state=["failed", "completed"], id_contains="99")
    assert several == ["c699", "c599", "c499", "c399", "c299", "c199", "c99"]
    assert all(page.searched_to is None for page in (await _all(rt, tool="tool1"))[1]), "an index has them"


async def test_clocks_that_differ_hide_no_call(tmp_path: Path) -> None:
    """A process whose date is days ahead, or behind, makes calls between those of another."""
    path = tmp_path / "calls.db"
    async with opened(lambda: SqliteStore(path)) as right, opened(lambda: SqliteStore(path)) as wrong:
        await fill(right, 0, 10)
        await fill(wrong, 100, 10, seconds=4_000.0)
        await fill(right, 20, 10)
        everything = {stored.id: stored.events[0] for stored in await right.history(Query(limit=1_000))}
        for until in (1_000.0, 1_005.0, 1_025.0, 300_000.0, 401_000.0, 1e9):
            found = {stored.id for stored in await right.history(Query(until=until, limit=1_000))}
            with closing(apsw.Connection(str(path))) as other:
                rows = other.execute("SELECT id FROM calls WHERE created_at < ?", (until,)).fetchall()
            assert found == {id for (id,) in rows}, until
        assert len(everything) == 30


async def test_a_page_of_threads_asks_as_little_of_a_big_store_as_of_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clicket.runtime.views.threads._MAX_LOOKED_AT", 500)
    monkeypatch.setattr("clicket.runtime.views.threads._BATCH", 250)
    monkeypatch.setattr("clicket.runtime.views.threads.MAX_COUNTED", 20)
    questions = 0
    read = SqliteStore._read

    async def counted(self: SqliteStore, job: Callable[[apsw.Connection], Any]) -> Any:
        nonlocal questions
        questions += 1
        return await read(self, job)

    monkeypatch.setattr(SqliteStore, "_read", counted)
    async with opened(lambda: SqliteStore(tmp_path / "calls.db")) as store:
        steps = _steps(store)

        async def cost() -> tuple[int, int]:
            nonlocal questions
            questions, before = 0, steps()
            page = await list_threads(store, None, 100, None)
            assert len(page.items) == 50
            return questions, steps() - before

        async def grow(first: int, last: int) -> None:
            for start in range(first, last, 500):
                for number in range(50):
                    await fill(store, start + number * 10, 10, thread=f"t{number:02d}")

        await grow(0, 1_500)
        small = await cost()
        await grow(1_500, 4_500)
        big = await cost()
    assert small[0] == big[0] <= 10, "a few questions for all threads together"
    assert big[1] <= small[1] * 1.5
