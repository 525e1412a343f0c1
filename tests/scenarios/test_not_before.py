"""Calls with `not_before` wait in the store, run when they are due, in whichever process is there, and can be cancelled meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.kit import assert_sound, make, sqlite_url

from clicket import Policy, Runtime, State, ToolCall, ToolContext, ToolResult, tool
from clicket.engine import CallHandle
from clicket.errors import UsageError
from clicket.testing import StepClock, memory_runtime

STARTS: list[tuple[int, float]] = []


@tool(version="7")
async def note(n: int, ctx: ToolContext) -> int:
    STARTS.append((n, time.time()))
    return n


async def documents(rt: Runtime) -> int:
    return len(await rt.store.documents("due"))


async def result_of(clock: StepClock, handle: CallHandle) -> ToolResult:
    """The result of a call that another part of the store has: its waiter looks at intervals of the clock."""
    waiter = asyncio.ensure_future(handle.result())
    for _ in range(20):
        await clock.run(1.0)
        if waiter.done():
            break
    return await asyncio.wait_for(waiter, PATIENCE)


async def put_away(rt: Runtime, id: str) -> bool:
    (stored,) = await rt.store.load(id)
    return stored.owner is None


async def test_a_call_waits_for_its_time_and_holds_nothing() -> None:
    clock = StepClock()
    async with memory_runtime([note], clock=clock, max_concurrency=1) as rt:
        due = datetime.fromtimestamp(clock.now() + 900, UTC)
        handle = await rt.submit("note", {"n": 1}, not_before=due, deadline=60)
        await clock.settle()
        record = await rt.get(handle.id)
        assert (record.state, record.waiting_for, record.not_before) == (State.PENDING, "time", due.timestamp())
        assert not rt.held_calls()  # it is in the store alone
        assert (await rt.queue()).length == 0
        assert (await rt.queue()).later == 1
        assert not [delay for delay in clock.pending if delay > 400]  # no timer for it
        assert (await rt.call("note", {"n": 2})).output == 2
        await clock.run(899)
        assert (await rt.get(handle.id)).state is State.PENDING
        assert (await result_of(clock, handle)).output == 1
        record = await rt.get(handle.id)
        assert record.started_at is not None
        assert record.started_at >= due.timestamp()
        assert_sound(record)
        assert await documents(rt) == 0
        assert rt.engine.due_calls.late.count == 1


async def test_a_time_in_the_past_is_now_and_the_result_can_be_awaited() -> None:
    async with memory_runtime([note]) as rt:
        assert (await rt.call("note", {"n": 3}, not_before=1.0)).output == 3
        assert (await rt.call("note", {"n": 4}, not_before=time.time() + 0.05)).output == 4
        many = await rt.call_many([ToolCall("note", {"n": n}, not_before=time.time() + 0.05) for n in range(3)])
        assert [result.output for result in many] == [0, 1, 2]


NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001  # that it has no zone is the point


@pytest.mark.parametrize("wrong", [NAIVE, "tomorrow", True, float("nan"), -1.0, 1e300])
async def test_what_is_no_instant_is_refused(wrong: object) -> None:
    async with memory_runtime([note]) as rt:
        with pytest.raises(UsageError, match="not_before"):
            await rt.submit("note", {"n": 1}, not_before=wrong)  # type: ignore[arg-type]


async def test_cancel_ends_it_and_its_document_goes_when_it_was_due() -> None:
    clock = StepClock()
    async with memory_runtime([note], clock=clock) as rt:
        handle = await rt.submit("note", {"n": 9}, not_before=clock.now() + 100)
        at_once = await rt.submit("note", {"n": 10}, not_before=clock.now() + 100)
        assert await at_once.cancel()  # it may not be in the store's queue yet
        await clock.settle()
        assert await rt.cancel(handle.id)
        await clock.run(102)
        assert (await rt.state(handle.id)) is (await rt.state(at_once.id)) is State.CANCELLED
        assert await documents(rt) == 0


async def test_approval_comes_first_then_the_wait() -> None:
    clock = StepClock()
    policy = Policy(ask=["note"])
    async with memory_runtime([note], clock=clock, policy=policy) as rt:
        handle = await rt.submit("note", {"n": 5}, not_before=clock.now() + 100)
        assert (await rt.get(handle.id)).waiting_for == "approval"
        assert await rt.approve(handle.id)
        await clock.settle()
        assert (await rt.get(handle.id)).waiting_for == "time"
        await clock.run(100)
        assert (await result_of(clock, handle)).output == 5


async def test_the_deadline_counts_from_its_time() -> None:
    @tool(timeout=None)
    async def slow() -> None:
        await asyncio.Event().wait()

    clock = StepClock()
    async with memory_runtime([slow], clock=clock) as rt:
        handle = await rt.submit("slow", not_before=clock.now() + 1000, deadline=50)
        await clock.run(1040)
        assert (await rt.get(handle.id)).state is State.RUNNING
        result = await result_of(clock, handle)
        assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "deadline")


async def test_another_process_runs_it(tmp_path: Path) -> None:
    STARTS.clear()
    url = sqlite_url(tmp_path)
    due = datetime.now(UTC) + timedelta(seconds=0.6)
    async with make([note], url, engine="workers") as rt:
        handles = [await rt.submit("note", {"n": n}, id=f"c{n}", not_before=due) for n in range(20)]
        await eventually(lambda: put_away(rt, "c19"))
    async with make([note], url, retention=3600) as one, make([note], url) as two:
        for handle in handles:
            assert (await (await two.handle(handle.id)).result()).output == int(handle.id[1:])
        assert sorted(n for n, _ in STARTS) == list(range(20))
        assert all(at >= due.timestamp() for _, at in STARTS)
        again = await one.submit("note", {"n": 3}, id="c3", not_before=time.time() + 100)  # the same call
        assert (await again.result()).output == 3


async def test_a_runtime_without_the_tool_lets_it_run_elsewhere(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with make([note], url) as rt:
        handle = await rt.submit("note", {"n": 6}, not_before=time.time() + 0.3)
        await eventually(lambda: put_away(rt, handle.id))
    async with make([], url) as stranger:
        await eventually(lambda: due(stranger, handle.id))
        async with make([note], url) as rt:
            assert (await (await rt.handle(handle.id)).result()).output == 6


async def test_a_call_that_was_let_run_does_not_wait_again_where_the_date_is_behind(tmp_path: Path) -> None:
    """The process that lets it run removes its document, so nothing would let it run a second time."""
    url = sqlite_url(tmp_path)
    async with make([note], url, engine="workers") as rt:
        handle = await rt.submit("note", {"n": 8}, not_before=time.time() + 3600)
        await eventually(lambda: put_away(rt, handle.id))
    clock = StepClock(time.time() + 7200)
    ahead = make([], url)
    ahead._clock = clock
    async with ahead:
        while not await due(ahead, handle.id):
            await clock.run(1.0)
            await asyncio.sleep(0)
    async with make([note], url) as rt:
        await eventually(lambda: went_on(rt, handle.id))
        record = await rt.get(handle.id)
        assert record.output == 8
        assert [event.data["text"] for event in record.events if event.type == "note"] == [
            "It waits until its time.",
            "It is due.",
        ]


async def went_on(rt: Runtime, id: str) -> bool:
    """Has a call that was due ended, or does it wait again?"""
    record = await rt.get(id)
    return record.state.is_terminal or record.waiting_for == "time"


async def due(rt: Runtime, id: str) -> bool:
    return (await rt.get(id)).waiting_for is None


@pytest.fixture(params=["redis", "postgresql"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "redis":
        with redis_server(tmp_path) as redis:
            yield redis.url
    else:
        with postgres_server() as postgres:
            yield postgres.url()


async def test_over_the_stores_of_fleets(shared: str) -> None:
    STARTS.clear()
    async with make([note], shared) as one, make([note], shared) as two:
        due_at = time.time() + 0.5
        handles = [await one.submit("note", {"n": n}, not_before=due_at) for n in range(8)]
        cancelled = await two.submit("note", {"n": 99}, not_before=time.time() + 3600)
        await eventually(lambda: put_away(one, cancelled.id))
        assert (await one.queue()).later >= 1
        assert await one.cancel(cancelled.id)
        since = time.time() // 60 * 60 - 180
        await one.schedule("minutely", "* * * * *", "note", {"n": 7}, catch_up="all", overlap="queue")
        document = await one.store.document("schedule", "minutely@")
        assert document is not None
        stored = msgspec.json.decode(document.body)
        stored["schedule"]["last_due"] = since
        await one.store.put_document("schedule", "minutely@", msgspec.json.encode(stored), None)
        assert [(await handle.result()).output for handle in handles] == list(range(8))
        assert all(at >= due_at for n, at in STARTS if n < 7)

        async def caught_up() -> bool:
            schedule = await two.schedules.get("minutely")
            return schedule.fired >= 3 and not schedule.waiting

        await eventually(caught_up)
        log = (await two.schedules.get("minutely")).log
        fired = [entry.due for entry in log if entry.outcome == "fired"]
        assert fired[:3] == [since + 60, since + 120, since + 180]
        assert len(set(fired)) == len(fired)
