"""The hub under faults: callers that are cancelled, secrets in texts of people, old snapshots."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import make, sqlite_url

from clicket import Runtime, tool
from clicket.hub import Change
from clicket.kernel import ToolStatus

TOKEN = "sk-ant-api03-" + "A1b2C3d4" * 6


@tool(max_retries=0, failure_threshold=1, cooldown=0.05)
async def flaky() -> str:
    raise ValueError("boom")


async def rested(rt: Runtime) -> None:
    async def ready() -> bool:
        return (await rt.hub("t").status("flaky")).should_rebind

    await eventually(ready)


@tool(max_retries=0)
async def slow() -> None:
    await asyncio.Event().wait()


async def test_a_runtime_that_closes_is_no_failure_of_its_tools(tmp_path: Path) -> None:
    for _ in range(3):
        rt = await make([slow], sqlite_url(tmp_path)).open()
        handle = await rt.submit("slow", thread="t")
        await eventually(lambda handle=handle, rt=rt: rt.engine.live.find(handle.id, "t", "").entry.attempts)
        await rt.close(patience=0)
    async with make([slow], sqlite_url(tmp_path)) as rt:
        record = await rt.get(handle.id)
        assert record.error is not None
        assert record.error.code == "outcome_unknown"
        state = await rt.hub("t").status("slow")
        assert (state.status, state.consecutive_failures) == (ToolStatus.AVAILABLE, 0)


class Pause:
    """Replaces an async method, and pauses one of its calls until the caller is cancelled."""

    def __init__(self, method: Any, at: int, *, after: bool) -> None:
        self._method, self._left, self._after = method, at, after
        self.reached = asyncio.Event()

    async def __call__(self, *args: Any) -> Any:
        self._left -= 1
        if self._left:
            return await self._method(*args)
        done = await self._method(*args) if self._after else None
        self.reached.set()
        await asyncio.Event().wait()
        return done


@pytest.mark.parametrize("where", ["asking for the slot", "looking again"])
async def test_a_trial_whose_caller_leaves_blocks_the_tool_for_no_thread(tmp_path: Path, where: str) -> None:
    place = sqlite_url(tmp_path)
    async with make([flaky], place) as one, make([flaky], place) as two:
        await one.call("flaky", thread="t")
        await rested(one)
        await eventually(lambda: not one.engine.tasks.running)  # the change was announced
        owner, name, at = (one.store, "hold", 1) if where == "asking for the slot" else (one.engine.hub, "_read", 2)
        method = getattr(owner, name)
        pause = Pause(method, at, after=True)
        setattr(owner, name, pause)
        leaving = asyncio.create_task(one.call("flaky", thread="t"))
        await asyncio.wait_for(pause.reached.wait(), PATIENCE)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        setattr(owner, name, method)
        for rt in (two, one, two):

            async def tried(rt: Runtime = rt) -> bool:
                await rested(rt)
                result = await rt.call("flaky", thread="t")
                return result.error is not None and result.error.code == "tool_error"

            await eventually(tried)


async def test_names_with_colons_share_no_trial() -> None:
    async with make([flaky]) as rt:
        slots = set()
        for caller, thread in (("a:b", "c"), ("a", "b:c")):
            await rt.acting_for(caller).call("flaky", thread=thread)

            async def taken(caller: str = caller, thread: str = thread) -> Any:
                return await rt.engine.hub.look("flaky", thread, caller)

            slots.add(await eventually(taken))
        assert len(slots) == 2


async def test_secrets_in_what_people_write_are_hidden(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    changes: list[Change] = []
    async with make([flaky], sqlite_url(tmp_path)) as rt:
        hub = rt.hub("t")

        async def watch() -> None:
            async for change in hub.watch():
                changes.append(change)  # noqa: PERF401  # each is wanted as it comes

        watching = asyncio.ensure_future(watch())
        await eventually(lambda: bool(rt.engine.hub.watchers))
        await asyncio.sleep(0)
        await hub.set("flaky", "maintenance", f"the key {TOKEN} is old", by=TOKEN)
        assert (await hub.status("flaky")).reason == "the key [secret] is old"
        state = {"toolName": "flaky", "status": "failed", "consecutiveFailures": 3, "lastError": TOKEN, "reason": TOKEN}
        assert await hub.restore(json.dumps({"states": [state]}), by=TOKEN)
        assert await hub.restore(json.dumps({"states": [{**state, "status": "unavailable"}]}))
        await eventually(lambda: len(changes) >= 3)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert TOKEN not in await hub.snapshot() + repr(changes) + caplog.text
    # Not while it is open: a second library of SQLite in one process cuts the shared memory that the first one has mapped.
    with sqlite3.connect(tmp_path / "calls.db") as file:
        assert TOKEN not in "\n".join(file.iterdump())
    assert [str(change.after) for change in changes] == ["maintenance", "failed", "unavailable"]


async def test_an_old_snapshot_is_not_swept_away_at_once(store: str) -> None:
    async with make([flaky], store) as rt:
        state = {"toolName": "flaky", "status": "maintenance", "reason": "x", "lastUpdated": "2001-01-01T00:00:00Z"}
        assert await rt.hub("t").restore(json.dumps({"states": [state]}))
        await rt.sweep()
        assert (await rt.hub("t").status("flaky")).status is ToolStatus.MAINTENANCE


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00", "2999-01-01T00:00:00Z"])
async def test_times_that_cannot_be_do_no_harm(time: str) -> None:
    async with make([flaky]) as rt:
        times = dict.fromkeys(("lastUpdated", "lastFailureTime", "lastSuccessTime", "firstSuccessTime"), time)
        state = {"toolName": "flaky", "status": "failed", "consecutiveFailures": 3, **times}
        assert await rt.hub("t").restore(json.dumps({"states": [state]}))
        assert json.loads(await rt.hub("t").snapshot())["states"][0]["lastFailureTime"] < "2990"
        await rested(rt)  # it cools down like any other tool


async def test_a_call_costs_the_watchers_of_other_threads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.engine.hub.thread._LOOK_EVERY", 1_000.0)
    async with make([flaky]) as rt:
        read, threads = rt.store.tool_health_now, list[str]()

        def counted(caller: str, thread: str, tool: str | None = None) -> Any:
            threads.append(thread)
            return read(caller, thread, tool)

        monkeypatch.setattr(rt.store, "tool_health_now", counted)
        waiting = asyncio.ensure_future(anext(rt.hub("other").watch()))
        await eventually(lambda: "other" in threads)
        await rt.call("flaky", thread="t")
        await eventually(lambda: not rt.engine.tasks.running)
        assert threads.count("other") == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
