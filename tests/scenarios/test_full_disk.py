"""A full disk is known at once: callers are told, no new call is accepted, closing waits for nothing, and the log says it once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.kit import sqlite_url

from clicket import Runtime, Settings, tool
from clicket.engine.drive.draining import Draining
from clicket.errors import StoreUnavailable
from clicket.stores.sqlite import SqliteStore
from clicket.testing import StepClock, with_clock

HANGS = 60.0
"""Seconds that only a test meets that hangs."""


def fill(store: Any) -> None:
    """The file may not grow any more: SQLite says then what it says of a full disk."""
    assert isinstance(store, SqliteStore)
    assert store._writer is not None
    connection = store._writer.connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').get}")


def make_room(store: Any) -> None:
    store._writer.connection.execute("PRAGMA max_page_count = 1000000")


async def test_callers_learn_it_at_once_and_nothing_waits_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    go = asyncio.Event()

    @tool
    async def write(size: int = 100_000) -> str:
        await go.wait()
        return "x" * size

    made = Runtime([write], settings=Settings(store=sqlite_url(tmp_path), close_timeout=3_600.0))
    clock = StepClock()  # no retry comes to its time
    async with with_clock(made, clock) as rt, asyncio.timeout(HANGS):
        handles = [await rt.submit("write", id=f"c{number}") for number in range(3)]
        fill(rt.store)
        go.set()
        for handle in handles:
            with pytest.raises(StoreUnavailable, match="The disk is full"):
                await handle.result()
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match=r"No call was made: .*The disk is full"):
                await rt.submit("write", {"size": 1})
        assert rt.engine.journal.trouble is not None
        make_room(rt.store)
        while rt.engine.journal.trouble is not None:
            await clock.run(0.1)
            await asyncio.sleep(0.001)
        assert (await rt.call("write", {"size": 1})).success
        for handle in handles:
            assert (await handle.result()).success, "they were stored when there was room"
        go.clear()
        handles = [await rt.submit("write", id=f"d{number}") for number in range(3)]
        fill(rt.store)
        go.set()
        for handle in handles:
            with pytest.raises(StoreUnavailable):
                await handle.result()
        await rt.close()
    said = [record.getMessage() for record in caplog.records if record.name == "clicket.journal"]
    assert [line.partition(",")[0] for line in said] == [
        "events of running calls cannot be stored",
        "events of running calls can be stored again",
        "events of running calls cannot be stored",
    ]


async def test_a_drained_worker_waits_for_room_without_spinning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, looks, wait_for = asyncio.Event(), 0, Draining._wait_for

    @tool
    async def write() -> str:
        await go.wait()
        return "x" * 100_000

    async def counted(draining: Draining, calls: Any) -> None:
        nonlocal looks
        looks += 1
        await wait_for(draining, calls)

    monkeypatch.setattr(Draining, "_wait_for", counted)
    made, clock = Runtime([write], settings=Settings(store=sqlite_url(tmp_path))), StepClock()
    async with with_clock(made, clock) as rt, asyncio.timeout(HANGS):
        handle = await rt.submit("write", id="c")
        await rt.workers.drain(rt.workers.id)
        while rt.workers.state != "draining":
            await clock.run(1.0)
        fill(rt.store)
        go.set()
        with suppress(StoreUnavailable):  # a write of the worker's own entry may have left room
            await handle.result()
        drained = asyncio.create_task(rt.workers.until_drained())
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert looks <= 1, "the clock stands still"
        make_room(rt.store)
        while not drained.done():
            await clock.run(0.1)
            await asyncio.sleep(0.001)
