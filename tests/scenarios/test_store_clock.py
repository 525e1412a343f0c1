"""Processes on machines with different dates, over one store: its server's clock decides what is due, and how long a call took."""

from __future__ import annotations

import time

import msgspec
import pytest
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

from clicket import Runtime, Settings, tool
from clicket.agents import ReActAgent
from clicket.errors import StoreUnavailable
from clicket.ports import StoreClock, SystemClock
from clicket.runtime.schedules.schedule import KIND, StoredSchedule
from clicket.testing import ScriptedModel, StepClock, memory_runtime

DAYS = 3 * 86_400.0


class Ahead(SystemClock):
    """Another machine, whose date is three days ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.boot = "another machine"
        self.now = lambda: time.time() + DAYS


@tool
async def work(text: str = "") -> str:
    """Do something."""
    return text


async def test_a_worker_whose_date_is_ahead_over_redis(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    await _check_a_worker_whose_date_is_ahead(redis.url, monkeypatch)


async def test_a_worker_whose_date_is_ahead_over_postgres(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _check_a_worker_whose_date_is_ahead(postgres.url(), monkeypatch)


async def _check_a_worker_whose_date_is_ahead(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Runtime([work], settings=Settings(store=url, engine="workers")) as here:
        monkeypatch.setattr("clicket.runtime.compose.SystemClock", Ahead)
        handle = await here.submit("work", {"text": "hello"}, id="one")
        later = await here.submit("work", {"text": "tomorrow"}, id="two", not_before=time.time() + 86_400.0)
        made = await here.schedule("daily", "0 0 * * *", "work")
        assert made.next_at is not None
        async with Runtime([work], settings=Settings(store=url)) as ahead:
            assert (await handle.result()).output == "hello"
            assert ahead._scheduler is not None
            await ahead._scheduler.tick()
            await ahead.engine.due_calls.look()
            record = await here.get("one")
            assert record.duration is not None
            assert record.duration < DAYS / 2
            assert (await here.schedules.get("daily")).next_at == made.next_at
            assert (await here.get("two")).waiting_for == "time"
            assert abs(ahead.clock.now() - time.time()) < 3_600.0
        await later.cancel()
        await here.schedules.remove("daily")


class Machine(SystemClock):
    """Its date can be changed."""


async def test_a_date_that_jumps_removes_no_calls_and_threads_over_redis(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _check_a_date_that_jumps(redis.url, monkeypatch)


async def test_a_date_that_jumps_removes_no_calls_and_threads_over_postgres(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _check_a_date_that_jumps(postgres.url(), monkeypatch)


async def _check_a_date_that_jumps(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep comes before the process has compared the dates again."""
    machine = Machine()
    monkeypatch.setattr("clicket.runtime.compose.SystemClock", lambda: machine)
    settings = Settings(store=url, retention=86_400.0, outcome_retention=86_400.0, memory_retention=86_400.0)
    async with Runtime([work], settings=settings) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("work", {"text": "hello"})], "done"]))
        await agent.run("go", thread="t")
        assert (await rt.call("work", {"text": "hello"}, id="one")).success
        _, forget = rt.engine.background._chores["threads"]
        for remove in (
            forget,
            forget,
            rt.engine.sweeps.sweep_all,
        ):  # the first step finds idle threads, the second removes them
            rt.clock.skew = 0.0
            machine.now = lambda: time.time() + DAYS
            await remove()
            machine.now = time.time
        assert (await rt.get("one")).output == "hello"
        assert (await agent.look("t")).turns == 1


class Host(StepClock):
    """A machine whose date can be wrong."""

    wrong = 0.0

    def now(self) -> float:
        return super().now() + self.wrong


async def test_dates_are_those_of_the_server_while_the_machines_differ(caplog: pytest.LogCaptureFixture) -> None:
    server, host, down = StepClock(), Host(), False
    host.advance(server.now() - host.now())

    async def read() -> float:
        if down:
            raise StoreUnavailable("down")
        return server.now()

    clock = StoreClock(host, read)
    host.wrong = 0.3
    await clock.look()
    assert clock.now() == host.now(), "they agree, but for what a message takes"
    for host.wrong in (DAYS, -DAYS):
        await clock.look()
        assert clock.now() == pytest.approx(server.now(), abs=1e-3)
        down = True
        with pytest.raises(StoreUnavailable):
            await clock.look()
        assert clock.now() == pytest.approx(server.now(), abs=1e-3)
        down = False
    host.wrong = 0.0
    await clock.look()
    assert (clock.skew, clock.now()) == (0.0, host.now())
    assert caplog.text.count("the date of this machine is 259200 s ahead of that of the store's server") == 1


async def test_a_schedule_that_was_moved_ahead_goes_on_from_now() -> None:
    """As a process leaves it whose date was three days ahead, also over a store without a clock."""
    clock = StepClock(1_700_006_400.0)
    async with memory_runtime([work], clock=clock) as rt:
        made = await rt.schedule("each", "0 * * * *", "work", catch_up="none")
        (document,) = await rt.store.documents(KIND)
        stored = msgspec.json.decode(document.body, type=StoredSchedule)
        moved = msgspec.structs.replace(stored.schedule, last_due=stored.schedule.last_due + DAYS)
        body = msgspec.json.encode(msgspec.structs.replace(stored, schedule=moved))
        assert await rt.store.put_document(KIND, document.key, body, document.version)
        await clock.run(7.0)
        assert (await rt.schedules.get("each")).next_at == made.next_at
        clock.advance(3_590.0)
        while (await rt.schedules.get("each")).fired == 0:
            await clock.run(1.0)
        assert [entry.due for entry in (await rt.schedules.get("each")).log] == [made.next_at]
