"""Published bugs of durable runtimes and queues: waits, decisions and time. The table in `peers_bugs.py` says what each was."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.crash.nest import Nest
from tests.kit.children import is_running
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound, make, sqlite_url
from tests.scenarios.peers_bugs_child import (
    ASK,
    FIRST,
    Effects,
    asks_and_dies,
    completes_and_dies,
    tools_at,
)

from clicket import Policy, Runtime, State, ToolContext, tool
from clicket.errors import Conflict
from clicket.testing import StepClock, memory_runtime, with_clock


def reopened(folder: Path, **settings: Any) -> Runtime:
    return make(tools_at(folder), sqlite_url(folder), **settings)


async def result_of(rt: Runtime, id: str) -> Any:
    return await asyncio.wait_for((await rt.handle(id)).result(), PATIENCE)


async def test_vercel_1203_a_decision_after_the_asking_process_is_gone(tmp_path: Path, nest: Nest) -> None:
    """Another release decides, which has a newer version of the tool, and a third process runs the call."""
    assert (await nest.raise_child(asks_and_dies, {"folder": str(tmp_path)})).signal == signal.SIGKILL
    async with make([], sqlite_url(tmp_path)) as decider:
        assert await decider.approve("c", by="ann")

    @tool(name="pay", version="2")
    async def pay(n: int) -> str:
        return f"version 2 paid {n}"

    async with make([pay], sqlite_url(tmp_path), policy=ASK) as rt:
        result = await result_of(rt, "c")
        assert (result.state, result.output) == (State.COMPLETED, "version 2 paid 1")
        assert ((await rt.get("c")).approval or {})["by"] == "ann"


@tool(external=True, timeout=60.0)
async def sign(to: list[str], ctx: ToolContext) -> None:
    """A person signs, elsewhere."""
    tokens.append(ctx.pending(token_for="ann").token)


tokens: list[str] = []


async def waiting_outside(rt: Runtime, *ids: str) -> dict[str, str]:
    """Submits the calls, and waits until all wait for their results; their tokens."""
    found = {}
    for id in ids:
        await rt.submit("sign", {"to": [id]}, id=id)
        await eventually(partial(_waits, rt, id, "external"))
        found[id] = tokens[-1]
    return found


async def _waits(rt: Runtime, id: str, what: str) -> bool:
    return (await rt.get(id)).waiting_for == what


async def test_vercel_3841_a_result_that_was_acknowledged(tmp_path: Path, nest: Nest) -> None:
    """The process that brought the result is killed as soon as the store has acknowledged it; no process ran the call at that time."""
    async with make([sign], sqlite_url(tmp_path)) as rt:
        (token,) = (await waiting_outside(rt, "c")).values()
    ending = await nest.raise_child(completes_and_dies, {"folder": str(tmp_path), "token": token})
    assert ending.signal == signal.SIGKILL
    async with make([sign], sqlite_url(tmp_path)) as rt:
        result = await result_of(rt, "c")
        assert (result.output, result.attempts) == ("signed", 1)
        with pytest.raises(Conflict):
            await rt.complete(token, "signed again")


@pytest.mark.parametrize("turns", range(6))
async def test_vercel_3070_several_results_race_against_a_timeout(store: str, turns: int) -> None:
    """Two of three results arrive, the third at the deadline. The journal says which came first, and a restart says the same."""
    clock = StepClock()
    ids = ("a", "b", "c")
    async with with_clock(make([sign], store), clock) as rt:
        found = await waiting_outside(rt, *ids)
        for id in ids[:2]:
            await rt.complete(found[id], "signed")
        completing = asyncio.create_task(rt.complete(found["c"], "signed"))
        for _ in range(turns):
            await asyncio.sleep(0)
        clock.advance(61)
        (heard,) = await asyncio.gather(completing, return_exceptions=True)
        ends = {id: (await result_of(rt, id)).state for id in ids}
        assert ends["a"] == ends["b"] == State.COMPLETED
        assert ends["c"] is (State.TIMEOUT if isinstance(heard, Conflict) else State.COMPLETED)
        for id in ids:
            assert_sound(await rt.get(id))
    if store != "memory://":
        async with make([sign], store) as rt:
            assert {id: (await result_of(rt, id)).state for id in ids} == ends


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("turns", range(6))
async def test_vercel_4017_a_burst_of_decisions_at_the_deadline(tmp_path: Path, kind: str, turns: int) -> None:
    """Twenty decisions, from two processes on SQLite, while the approval expires: the one that is acknowledged is the one that counts."""
    clock = StepClock()
    policy = Policy(ask=["pay"], approval_timeout=60.0)
    url = sqlite_url(tmp_path) if kind == "sqlite" else "memory://"
    async with with_clock(make(tools_at(tmp_path), url, policy=policy), clock) as rt, make([], url) as other:
        deciders = [rt, other if kind == "sqlite" else rt]
        handle = await rt.submit("pay", FIRST, id="c")
        burst = [
            asyncio.create_task(one.approve("c", by=f"{n}") if n % 4 else one.deny("c", by=f"{n}"))
            for n in range(1, 11)
            for one in deciders
        ]
        for _ in range(turns):
            await asyncio.sleep(0)
        clock.advance(61)
        heard = await asyncio.wait_for(asyncio.gather(*burst), PATIENCE)
        state = (await asyncio.wait_for(handle.result(), PATIENCE)).state
        record = await rt.get("c")
    assert_sound(record)
    decisions = [event.data["approved"] for event in record.events if event.type == "approval_given"]
    assert heard.count(True) == len(decisions) <= 1
    assert state is ({True: State.COMPLETED, False: State.FAILED}[decisions[0]] if decisions else State.TIMEOUT)
    assert Effects(tmp_path).lines == (["pay 1"] if state is State.COMPLETED else [])


async def test_kombu_337_a_call_that_waits_longer_than_a_lease(tmp_path: Path) -> None:
    """It is due after 720 leases. Meanwhile no process holds it; then one runs it."""
    clock = StepClock()
    async with (
        with_clock(reopened(tmp_path, lease=10.0), clock) as one,
        with_clock(reopened(tmp_path, lease=10.0), clock) as two,
    ):
        handle = await one.submit("put", FIRST, not_before=clock.now() + 7200)
        for _ in range(7):
            clock.advance(1000)
            await asyncio.gather(one.recover(), two.recover())
        assert not one.held_calls()
        assert not two.held_calls()
        assert Effects(tmp_path).lines == []

        async def ran() -> list[str]:
            clock.advance(60)
            return Effects(tmp_path).lines

        await eventually(ran)
        assert (await asyncio.gather(one.recover(), two.recover()))[0].total == 0
        assert len((await one.get(handle.id)).attempts) == 1
    assert Effects(tmp_path).lines == ["put 1"]


async def test_prefect_7461_a_schedule_at_the_end_of_daylight_saving_time() -> None:
    """New York set its clocks back on 6 November 2022: a time of every day is one call a day, before, then and after."""
    zone = ZoneInfo("America/New_York")
    clock = StepClock(datetime(2022, 11, 4, 12, tzinfo=zone).timestamp())
    ran: list[str] = []

    @tool
    async def report() -> None:
        ran.append(datetime.fromtimestamp(clock.now(), zone).strftime("%d. %H:%M"))

    async with memory_runtime([report], clock=clock) as rt:
        await rt.schedule("nightly", "30 1 * * *", "report", timezone="America/New_York")
        await rt.schedule("morning", "0 9 * * *", "report", timezone="America/New_York")
        for day in (5, 6, 7, 8):
            for hour in (5.5, 6.5, 13, 14):  # in UTC: each time before and after the change
                clock.advance(datetime(2022, 11, day, tzinfo=UTC).timestamp() + hour * 3600 - 2 - clock.now())
                for _ in range(20):
                    await clock.run(0.2)
    assert ran == [f"{day:02}. {time}" for day in (5, 6, 7, 8) for time in ("01:30", "09:00")]


@tool(isolation="process", timeout=None)
def stubborn(pid_file: str) -> None:
    """A plain function that never looks for a cancel."""
    Path(pid_file).write_text(str(os.getpid()))
    while True:
        time.sleep(60)


async def test_temporal_1048_a_cancel_of_a_body_in_a_child_process(tmp_path: Path) -> None:
    """The child process is ended, its slot is free, and the worker closes."""
    path = tmp_path / "pid"
    async with make([stubborn], sqlite_url(tmp_path), tool_processes=1) as rt:
        handle = await rt.submit("stubborn", {"pid_file": str(path)})
        pid = int(await eventually(lambda: path.exists() and path.read_text()))
        assert await handle.cancel()
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).state is State.CANCELLED
        await eventually(lambda: not is_running(pid))
        assert rt.activity().slots_used == 0
        assert rt.activity().abandoned == 0
