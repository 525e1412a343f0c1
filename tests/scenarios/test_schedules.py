"""Schedules: overlap and catch-up policies by the table, changes, pauses, jitter, secrets, callers; with a stepped clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.kit import sqlite_url

from clicket import Policy, Runtime, Settings, State, tool
from clicket.errors import InvalidInput, NotFound, PermissionDenied, ToolNotFound, UsageError
from clicket.runtime.schedules import Schedule
from clicket.testing import StepClock, memory_runtime, with_clock

START = 1_700_006_400.0  # 2023-11-15 00:00 UTC
HOUR = 3600.0
RUNS: list[str] = []
GATE: asyncio.Event | None = None


@tool(timeout=None)
async def work(text: str = "") -> str:
    RUNS.append(text)
    if GATE is not None:
        await GATE.wait()
    return text


@tool(sensitive=["token"])
async def send(token: str) -> int:
    RUNS.append(token)
    return len(token)


@pytest.fixture(autouse=True)
def clean() -> None:
    global GATE
    RUNS.clear()
    GATE = None


def hold() -> asyncio.Event:
    """From now on bodies wait until it is set."""
    global GATE
    GATE = asyncio.Event()
    return GATE


def outcomes(schedule: Schedule) -> list[tuple[str, float]]:
    """What became of each time, in hours after the start."""
    return [(entry.outcome, (entry.due - START) / HOUR) for entry in schedule.log]


@asynccontextmanager
async def at_midnight(tools: list[Any] | None = None, **settings: Any) -> AsyncIterator[tuple[Runtime, StepClock]]:
    clock = StepClock(START)
    async with memory_runtime([work, send] if tools is None else tools, clock=clock, **settings) as rt:
        yield rt, clock


@asynccontextmanager
async def process(folder: Path, at: float, tools: list[Any] | None = None) -> AsyncIterator[tuple[Runtime, StepClock]]:
    """A process over a shared store that begins so many hours after the start."""
    clock = StepClock(START + at * HOUR)
    runtime = Runtime([work, send] if tools is None else tools, settings=Settings(store=sqlite_url(folder)))
    async with with_clock(runtime, clock) as rt:
        yield rt, clock


async def elapse(clock: StepClock, hours: float, *, threads: bool = False) -> None:
    """Let time pass: in big steps, and in small ones around each full hour. `threads`: those of the store get time to finish."""
    end = clock.now() + hours * HOUR
    while (hour := (clock.now() // HOUR + 1) * HOUR) <= end:
        clock.advance(max(hour - clock.now() - 2, 0))
        await _steps(clock, threads=threads)
    clock.advance(max(end - clock.now(), 0))
    await _steps(clock, threads=threads)


async def _steps(clock: StepClock, *, threads: bool) -> None:
    for _ in range(20):
        await clock.run(0.2)
        if threads:
            await asyncio.sleep(0.004)


async def run(clock: StepClock, hours: float, rt: Runtime, name: str, runs: int) -> None:
    """Let time pass until so many bodies ran and so many entries of the log say so; the store's threads take what they need."""
    await elapse(clock, hours, threads=True)
    for _ in range(500):
        fired = [entry for entry in (await rt.schedules.get(name)).log if entry.outcome == "fired"]
        if len(RUNS) >= runs and len(fired) >= runs:
            break
        await _steps(clock, threads=True)


async def test_each_time_is_one_call_with_a_derived_id() -> None:
    async with at_midnight() as (rt, clock):
        made = await rt.schedule("nightly", "0 */6 * * *", "work", {"text": "hello"}, metadata={"team": "a"})
        assert (made.next_at, made.overlap, made.catch_up, made.thread) == (
            START + 6 * HOUR,
            "skip",
            "last",
            "schedule:nightly",
        )
        await elapse(clock, 25)
        assert RUNS == ["hello"] * 4
        record = await rt.get("schedule:nightly:2023-11-15T06:00:00Z")
        assert (record.state, record.metadata) == (
            State.COMPLETED,
            {"team": "a", "schedule": "nightly", "due": START + 6 * HOUR},
        )
        assert record.created_at - record.metadata["due"] < 1.0
        schedule = await rt.schedules.get("nightly")
        assert outcomes(schedule) == [("fired", hour) for hour in (6, 12, 18, 24)]
        assert (schedule.fired, schedule.skipped, schedule.missed) == (4, 0, 0)
        assert rt._scheduler is not None
        assert rt._scheduler.late.most < 1.0
        found = await rt.history(metadata={"schedule": "nightly"}, thread="schedule:nightly")
        assert len(found.items) == 4


OVERLAPS = {
    # while the first call runs for 3.5 hours: what ran by then, what ran after it ended, the log
    "allow": (4, 4, ["fired"] * 5),
    "skip": (1, 1, ["fired", "skipped", "skipped", "skipped", "fired"]),
    "queue": (1, 4, ["fired", "queued", "queued", "queued", "fired", "fired", "fired", "fired"]),
}


@pytest.mark.parametrize("overlap", OVERLAPS)
async def test_the_overlap_table(overlap: Any) -> None:
    during, after, log = OVERLAPS[overlap]
    gate = hold()
    async with at_midnight() as (rt, clock):
        await rt.schedule("each", "0 * * * *", "work", overlap=overlap)
        await elapse(clock, 4.5)
        assert len(RUNS) == during
        gate.set()
        await clock.run(12)
        assert len(RUNS) == after
        await elapse(clock, 1)
        schedule = await rt.schedules.get("each")
        assert [entry.outcome for entry in schedule.log] == log
        assert schedule.skipped == log.count("skipped")
        ids = [entry.call for entry in schedule.log if entry.outcome == "fired"]
        assert len(set(ids)) == len(ids) == len(RUNS)
        due = [entry.due for entry in schedule.log if entry.outcome == "fired"]
        assert due == sorted(due)


CATCH_UPS = {
    # one process ends after the first hour, the next one begins 20 minutes after the fifth: what it runs, what it logs
    ("none", "allow"): ([], [("missed", 2, 4)]),
    ("last", "allow"): ([5], [("missed", 2, 3)]),
    ("all", "allow"): ([2, 3, 4, 5], []),
    ("all", "skip"): ([2], [("skipped", 3, 1), ("skipped", 4, 1), ("skipped", 5, 1)]),
    ("all", "queue"): ([2, 3, 4, 5], [("queued", 3, 1), ("queued", 4, 1), ("queued", 5, 1)]),
}


@pytest.mark.parametrize("policies", CATCH_UPS)
async def test_the_catch_up_table(policies: tuple[Any, Any], tmp_path: Path) -> None:
    catch_up, overlap = policies
    runs, noted = CATCH_UPS[policies]
    async with process(tmp_path, 0) as (rt, clock):
        await rt.schedule("each", "0 * * * *", "work", catch_up=catch_up, overlap=overlap)
        await run(clock, 1.1, rt, "each", 1)
        assert len(RUNS) == 1
    async with process(tmp_path, 5 + 1 / 3) as (rt, clock):
        await run(clock, 0.01, rt, "each", 1 + len(runs))
        schedule = await rt.schedules.get("each")
        log = [entry for entry in schedule.log if entry.due > START + HOUR]
        assert [(e.due - START) / HOUR for e in log if e.outcome == "fired"] == runs
        assert len(RUNS) == 1 + len(runs)
        expected = [("missed", 2, 4)] if policies == ("none", "allow") else noted
        others = [(e.outcome, (e.due - START) / HOUR, e.count) for e in log if e.outcome != "fired"]
        assert others == [(outcome, due, count) for outcome, due, count in expected]
        assert schedule.missed == sum(count for outcome, _, count in expected if outcome == "missed")
        assert schedule.next_at == START + 6 * HOUR
        if noted:
            audited = [entry.what for entry in await rt.audit.list()]
            assert {"queued"} == {noted[0][0]} or f"schedule.{noted[0][0]}" in audited


async def test_a_short_restart_misses_nothing(tmp_path: Path) -> None:
    async with process(tmp_path, 0.99) as (rt, _):
        await rt.schedule("each", "0 * * * *", "work", catch_up="none")
    async with process(tmp_path, 1 + 40 / HOUR) as (rt, clock):
        await run(clock, 0.001, rt, "each", 1)
        assert outcomes(await rt.schedules.get("each")) == [("fired", 1)]


async def test_years_of_missed_minutes_are_on_record_and_cost_little(tmp_path: Path) -> None:
    async with process(tmp_path, 0) as (rt, _):
        await rt.schedule("minute", "* * * * *", "work", catch_up="last")
    async with process(tmp_path, 3 * 365 * 24 + 0.05) as (rt, clock):
        await run(clock, 0, rt, "minute", 1)
        schedule = await rt.schedules.get("minute")
        assert [(entry.outcome, entry.count) for entry in schedule.log][:2] == [("missed", 0), ("missed", 999)]
        assert schedule.log[0].due < START + 60
        assert schedule.log[2].outcome == "fired"


async def test_a_long_list_of_times_leaves_the_loop_to_others() -> None:
    async with at_midnight() as (rt, _):
        await rt.schedule("rare", "0 0 29 2 *", "work")
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        assert len(await rt.schedules.next("rare", 1_000)) == 1_000
        counting.cancel()
        assert turns >= 15


async def test_pause_resume_remove_and_next() -> None:
    async with at_midnight() as (rt, clock):
        await rt.schedule("each", "0 * * * *", "work")
        assert [(at - START) / HOUR for at in await rt.schedules.next("each", 3)] == [1, 2, 3]
        assert (await rt.schedules.pause("each", by="ann")).next_at is None
        await elapse(clock, 3.5)
        assert not RUNS
        assert [(at - START) / HOUR for at in await rt.schedules.next("each", 1)] == [4]
        resumed = await rt.schedules.resume("each")
        assert resumed.next_at == START + 4 * HOUR  # what was due meanwhile was not missed
        await elapse(clock, 1)
        assert len(RUNS) == 1
        assert await rt.schedules.remove("each")
        assert not await rt.schedules.remove("each")
        await elapse(clock, 5)
        assert len(RUNS) == 1
        with pytest.raises(NotFound):
            await rt.schedules.get("each")
        what = [entry.what for entry in await rt.audit.list()]
        assert what == ["schedule.removed", "schedule.resumed", "schedule.paused", "schedule.created"]


async def test_the_same_definition_changes_nothing_and_another_one_counts_from_now() -> None:
    async with at_midnight() as (rt, clock):
        await rt.schedule("each", "0 * * * *", "work", {"text": "a"})
        (before,) = await rt.store.documents("schedule")
        await elapse(clock, 0.5)
        again = await rt.schedule("each", "0  * * * *", "work", '{"text": "a"}')
        assert (await rt.store.documents("schedule"))[0].version == before.version
        assert again.created_at == START
        changed = await rt.schedule("each", "*/10 * * * *", "work", {"text": "b"})
        assert (changed.last_due, changed.created_at) == (clock.now(), START)
        clock.advance(601)
        await clock.run(2)
        assert RUNS == ["b"]
        assert [each.name for each in await rt.schedules.list()] == ["each"]


async def test_jitter_delays_each_call_the_same_everywhere() -> None:
    async with at_midnight() as (rt, clock):
        await rt.schedule("each", "0 * * * *", "work", jitter=600)
        await elapse(clock, 1.2)
        await clock.run(3)
        record = (await rt.history(thread="schedule:each")).items[0]
        assert record.not_before is not None
        assert 0 <= record.not_before - (START + HOUR) < 600
        assert record.started_at is not None
        assert record.started_at >= record.not_before
        assert record.state is State.COMPLETED
    first = record.not_before
    async with at_midnight() as (rt, clock):
        await rt.schedule("each", "0 * * * *", "work", jitter=600)
        await elapse(clock, 1.001)
        assert (await rt.history(thread="schedule:each")).items[0].not_before == first


async def test_a_process_without_the_tool_fires_nothing(tmp_path: Path) -> None:
    async with process(tmp_path, 0.5) as (rt, _):
        await rt.schedule("each", "0 * * * *", "work")
    async with process(tmp_path, 0.6, tools=[send]) as (rt, clock):
        await run(clock, 2, rt, "each", 0)
        schedule = await rt.schedules.get("each")
        assert not schedule.log
        assert schedule.next_at == START + HOUR  # it is overdue, which shows


async def test_callers_have_their_own_schedules() -> None:
    async with at_midnight() as (rt, clock):
        ann, bob = rt.acting_for("ann", ["call"]), rt.acting_for("bob")
        await ann.schedule("each", "0 * * * *", "work", {"text": "ann"})
        with pytest.raises(NotFound):
            await bob.schedules.get("each")
        assert not await bob.schedules.remove("each", caller="ann")
        assert not await bob.schedules.list()
        assert (await rt.schedules.get("each")).caller == "ann"
        await bob.schedule("each", "0 * * * *", "work", {"text": "bob"})
        with pytest.raises(UsageError, match="several callers"):
            await rt.schedules.get("each")
        await elapse(clock, 1.1)
        assert sorted(RUNS) == ["ann", "bob"]
        assert [record.caller for record in (await ann.history()).items] == ["ann"]
        assert await rt.schedules.remove("each", caller="bob")
        assert [each.caller for each in await rt.schedules.list()] == ["ann"]


async def test_secrets_are_sealed_or_refused() -> None:
    async with at_midnight() as (rt, _):
        with pytest.raises(UsageError, match="CLICKET_SECRET_KEY"):
            await rt.schedule("s", "0 * * * *", "send", {"token": "hunter2-hunter2"})
    async with at_midnight(secret_key="k" * 40) as (rt, clock):
        shown = await rt.schedule("s", "0 * * * *", "send", {"token": "hunter2-hunter2"})
        assert "hunter2" not in str(shown)
        (document,) = await rt.store.documents("schedule")
        assert b"hunter2" not in document.body
        await elapse(clock, 1.1)
        assert RUNS == ["hunter2-hunter2"]


async def test_what_cannot_be_scheduled_is_refused_at_once() -> None:
    async with at_midnight() as (rt, _):
        for wrong in (
            {"cron": "61 * * * *"},
            {"name": "a@b"},
            {"name": ""},
            {"timezone": "Nowhere"},
            {"overlap": "never"},
            {"catch_up": "most"},
            {"jitter": -1},
            {"timeout": 0},
            {"zone": "UTC"},
        ):
            given: dict[str, Any] = {"name": "each", "cron": "0 * * * *", "tool": "work", **wrong}
            with pytest.raises(UsageError):
                await rt.schedule(**given)
        with pytest.raises(ToolNotFound, match="Did you mean 'work'"):
            await rt.schedule("each", "0 * * * *", "wrok")
        with pytest.raises(InvalidInput):
            await rt.schedule("each", "0 * * * *", "work", {"txt": "a"})
        assert not await rt.schedules.list()
    async with at_midnight(policy=Policy(deny=["work"])) as (rt, _):
        with pytest.raises(PermissionDenied):
            await rt.schedule("each", "0 * * * *", "work")
