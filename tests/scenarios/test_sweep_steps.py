"""A sweep removes calls in small steps with pauses, counts once what is over, and gives the space back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.kit.many_calls import fill
from tests.scenarios.kit import make, sqlite_url

from clicket import Runtime, tool
from clicket.engine.recovery import chores
from clicket.ports import Keep
from clicket.stores.sqlite import SqliteStore, retention
from clicket.testing.store_kit import opened


@tool
async def echo(n: int) -> int:
    return n


@pytest.fixture
async def rt(tmp_path: Path) -> AsyncIterator[Runtime]:
    async with make([echo], sqlite_url(tmp_path)) as runtime:
        yield runtime


@pytest.mark.parametrize(
    ("calls", "seconds", "following"),
    [(100, 0.001, 200), (400, 0.001, 400), (100, 0.02, 100), (100, 0.5, 50), (20, 9.0, 20), (30, 9.0, 20)],
)
def test_a_slow_step_is_followed_by_a_smaller_one(calls: int, seconds: float, following: int) -> None:
    assert chores.next_step(calls, seconds) == following


async def test_calls_go_between_the_steps_of_a_sweep(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    removed, between = list[int](), list[int]()

    async def pause(clock: Any, seconds: float) -> None:
        assert (await rt.call("echo", {"n": len(between)})).output == len(between)
        between.append(removed[-1])

    monkeypatch.setattr(chores, "sleep", pause)
    await fill(rt.store, 0, 1_500)
    swept = await rt.sweep(Keep(since=1e9), progress=lambda so_far: removed.append(so_far.calls))
    assert swept.calls == 1_500
    assert len(between) >= 1_500 // 400, "a pause after each step"
    sizes = [after - before for before, after in pairwise([0, *between])]
    assert all(0 < size <= 400 for size in sizes), "each step removed some, and none many"


async def test_what_is_over_is_counted_once_for_all_steps(tmp_path: Path) -> None:
    async with opened(lambda: SqliteStore(tmp_path / "calls.db")) as store:
        await fill(store, 0, 600)
        texts: list[str] = []

        def note(cursor: Any, text: str, values: Any) -> bool:
            texts.append(text)
            return True

        store._reader.set_exec_trace(note)  # type: ignore[attr-defined]
        steps = 0
        while (await store.sweep(Keep(calls=100), 50)).more:
            steps += 1
        counts = [text for text in texts if "count(*)" in text]
        assert (steps, len(counts)) == (10, 1)
        assert (await store.sweep(Keep(calls=100), 50, dry=True)).calls == 0


def _pages(path: Path) -> int:
    with closing(apsw.Connection(str(path))) as connection:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        pages: int = connection.pragma("page_count")
    return pages


async def test_a_file_shrinks_when_calls_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SPARE_PAGES", 50)
    path = tmp_path / "calls.db"
    async with opened(lambda: SqliteStore(path)) as store:
        await fill(store, 0, 2_000)
        full = _pages(path)
        while (await store.sweep(Keep(since=1e9), 400)).more:
            pass
        assert _pages(path) < full / 4
