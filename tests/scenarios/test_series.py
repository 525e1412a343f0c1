"""Time series: calls that ended, their durations and the waiting ones; kept in the store, each visible to its own caller."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tools import add, breaks
from tests.scenarios.cache_kit import stepped
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import key_for, served

from clicket import Runtime, tool
from clicket.client import Client
from clicket.errors import UsageError
from clicket.sync import Runtime as SyncRuntime
from clicket.testing import StepClock

MINUTE = 60.0


@tool(timeout=1e6)
async def wait_long() -> None:
    """Wait to be cancelled."""
    await asyncio.sleep(3600)


async def a_minute_later(rt: Runtime, clock: StepClock) -> None:
    """A minute passes, and is sampled. A thread reads the file, and the clock does not wait for it, so our reads come
    after its own."""
    for _ in range(6):
        await clock.run(MINUTE / 6)
        for _ in range(12):
            await rt.store.document("any", "any")
            await clock.settle()
        while is_sampling():
            await rt.store.document("any", "any")
            await clock.settle()


def is_sampling() -> bool:
    """Does a task of this loop wait for the store inside of `Sampler.sample`?"""
    for task in asyncio.all_tasks():
        waits: Any = task.get_coro()
        while waits is not None:
            if getattr(waits, "__qualname__", "") == "Sampler.sample":
                return True
            waits = getattr(waits, "cr_await", None)
    return False


async def totals(rt: Runtime, **which: Any) -> list[float | None]:
    return [point.values["total"] for point in (await rt.series("calls", **which)).points]


async def test_a_chart_survives_a_restart(store: str) -> None:
    clock = StepClock(start=1_700_000_000.0 // 3600 * 3600)
    began = clock.now()
    async with stepped([add, breaks], store, clock) as rt:
        for number in range(3):
            for _ in range(number + 1):
                await rt.call("add", {"a": 1, "b": 1})
            await rt.call("breaks", {}, thread=f"t{number}")
            await a_minute_later(rt, clock)
        assert await totals(rt, since=began) == [2, 3, 4, 0]
        assert await totals(rt, since=began, tool="add") == [1, 2, 3, 0]
        assert await totals(rt, since=began, step=120) == [5, 4]
        errors = (await rt.series("errors", since=began)).points[0].values
        assert errors == {"tool_error": 1, "total": 1}
        latency = (await rt.series("latency", since=began, tool="add")).points[1].values
        assert latency["count"] == 2
        assert latency["p50"] is not None
        assert (await rt.series("latency", since=began)).points[3].values == {
            "count": 0,
            "mean": None,
            "p50": None,
            "p95": None,
        }
        report = await rt.report()
        assert sum(value or 0 for value in await totals(rt, since=began)) == report.totals.total
        await rt.call("add", {"a": 1, "b": 1})
        assert (await totals(rt, since=began))[-1] == 1, "the current minute"
    if store.startswith("sqlite"):
        clock.advance(10 * MINUTE)
        async with stepped([add, breaks], store, clock) as rt:
            assert sum(value or 0 for value in await totals(rt, since=began)) == 10
            await a_minute_later(rt, clock)
            kept = await totals(rt, since=began)
            assert kept[:4] == [2, 3, 4, 1], "the counts from before the restart are unchanged"


async def test_the_queue(store: str) -> None:
    clock = StepClock()
    async with stepped([wait_long], store, clock, max_concurrency=1) as rt:
        for number in range(3):
            await rt.submit("wait_long", {}, id=f"w{number}")
        await a_minute_later(rt, clock)
        lengths = [point.values for point in (await rt.series("queue")).points if point.values["max"]]
        assert lengths
        assert {values["length"] for values in lengths} == {2}
        await rt.bulk("cancel", filter={"active": True})


@pytest.mark.parametrize(
    ("which", "why"),
    [
        ({"metric": "cals"}, "Did you mean 'calls'"),
        ({"step": 90}, "multiple of 60"),
        ({"step": 0}, "multiple of 60"),
        ({"since": 0.0}, "longer step"),
        ({"since": float("nan")}, "since must be"),
    ],
)
async def test_bad_questions(which: dict[str, Any], why: str) -> None:
    async with make([add]) as rt:
        with pytest.raises(UsageError, match=why):
            await rt.series(**which)


async def test_over_http() -> None:
    async with served((add, breaks)) as it:
        admin, mine = await key_for(it, "admin", "admin"), await key_for(it, "mine", "call", "read")
        other = await key_for(it, "other", "call", "read")
        caller = await key_for(it, "caller", "call")
        for headers, count in ((mine, 2), (other, 1)):
            for _ in range(count):
                await it.call("add", {"a": 1, "b": 1}, headers=headers)

        async def ended(headers: dict[str, str], query: str = "") -> int:
            found = (await it.get(f"/series{query}", headers=headers)).json()
            assert (found["metric"], found["step"]) == ("calls", 60)
            return sum(point["values"]["total"] for point in found["points"])

        assert [await ended(headers) for headers in (admin, mine, other)] == [3, 2, 1]
        assert await ended(mine, "?tool=breaks") == 0
        assert (await it.get("/series", headers=caller)).status_code == 403
        for query in ("?step=61", "?metric=x", "?since=0", "?since=-1"):
            bad = await it.get(f"/series{query}", headers=mine)
            assert (bad.status_code, bad.headers["content-type"]) == (400, "application/problem+json")
        async with Client(it.url, key=mine["authorization"].removeprefix("Bearer ")) as client:
            points = (await client.series("latency", tool="add", step=3600)).points
            assert sum(point.values["count"] or 0 for point in points) == 2


def test_on_the_command_line(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "")
    with SyncRuntime((add,), store=place.store) as rt:
        rt.call("add", {"a": 1, "b": 2})
        assert rt.series().points[-1].values["completed"] == 1
    points = place.ask("series", "calls", "--since", "10m", "--step", "1m")["points"]
    assert sum(point["values"]["total"] for point in points) == 1
    assert "TOTAL" in place.inside("series").stdout
    assert place.inside("series", "x").returncode == 2
