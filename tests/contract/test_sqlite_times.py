"""Calls by time in SQLite: found by index, also when the clocks of their writers were wrong."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples
from tests.scenarios.kit import make, sqlite_url

from clicket import Policy, RetryableError, tool
from clicket.ports import Query
from clicket.stores.sqlite import SqliteStore, rows
from clicket.telemetry import from_journal
from clicket.telemetry.journal_figures import of_journal
from clicket.testing.store_kit import append, creation, opened

_numbers = count()
times = st.floats(0.0, 4_000.0) | st.sampled_from([0.0, 299.999, 300.0, 600.0, 900.0])


@given(st.lists(st.lists(times, min_size=1, max_size=4), max_size=8), st.lists(times, min_size=1, max_size=4))
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_since_finds_what_was_made_since(tmp_path: Path, groups: list[list[float]], asked: list[float]) -> None:
    """Clocks may be set back, and several writers' clocks differ."""

    async def compare() -> None:
        path = tmp_path / f"{next(_numbers)}.db"
        made: dict[str, float] = {}
        async with opened(lambda: SqliteStore(path)) as one, opened(lambda: SqliteStore(path)) as two:
            for number, group in enumerate(groups):
                changes = [creation(f"c{number}-{n}", at=at) for n, at in enumerate(group)]
                assert await append((one, two)[number % 2], *changes) == [None] * len(group)
                made.update({change.id: change.call.created_at for change in changes})
            for since in asked:
                found = await one.history(Query(since=since, limit=1_000))
                assert {stored.id for stored in found} == {id for id, at in made.items() if at >= since}

    asyncio.run(compare())


async def test_a_write_that_was_rolled_back_leaves_its_period_unknown(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    async with opened(lambda: SqliteStore(path)) as store:
        bad = creation("bad", at=1_000.0)
        bad.call.caller = "\ud800"  # type: ignore[misc]  # it cannot be stored
        assert await append(store, bad, creation("good", at=1_001.0)) != [None, None]
        await append(store, creation("later", at=1_002.0))
        assert {stored.id for stored in await store.history(Query(since=900.0))} >= {"later"}


def unrecorded(name: str, *given: Any, **named: Any) -> Any:
    raise AssertionError("a call was read whole")


async def test_figures_of_a_time_read_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(cache=300)
    async def fine(n: int) -> str:
        return "x" * n

    @tool(max_retries=1, retry_delay=0)
    async def unsteady() -> None:
        raise RetryableError("no")

    @tool(timeout=0.01, max_retries=0)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with make([fine, unsteady, slow], sqlite_url(tmp_path), policy=Policy(deny=["denied"])) as rt:
        for name, arguments in (
            ("fine", {"n": 3}), ("fine", {"n": 3}), ("fine", {"n": 5_000}), ("fine", {"n": 2_000_000}), ("unsteady", {}),
            ("slow", {}), ("fine", {"wrong": 1}), ("nobody", {}), ("denied", {}),
        ):  # fmt: skip
            await rt.call(name, arguments, thread="t")
        running = await rt.submit("slow", thread="u", timeout=60)
        page = await rt.history(limit=1_000)
        wanted = from_journal(page.items)
        monkeypatch.setattr(rows, "load_call", unrecorded)
        found = await of_journal(rt.store, since=0.0)
        monkeypatch.undo()
        await running.cancel()
    key = lambda figure: (figure.tool, figure.outcome, figure.error, figure.bucket or 0)  # noqa: E731
    assert sorted(found, key=key) == sorted(wanted, key=key)
    assert sum(figure.count for figure in found) == 9
