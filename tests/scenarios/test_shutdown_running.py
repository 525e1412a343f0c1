"""Closing a runtime while calls run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound, make, states
from tests.scenarios.shutdown_kit import Body, outcome, until_state, why

from clicket import State, tool

# Running calls - -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"idempotent": True}, {"read_only": True}, {"recovery": "rerun"}], ids=repr)
async def test_what_may_be_repeated_is_handed_back_and_run_again_with_the_same_key(
    sqlite: str, options: dict[str, Any]
) -> None:
    work = Body(**options)
    async with make([work.tool], sqlite) as rt:
        handle = await rt.submit("work", id="w")
        caller = asyncio.create_task(rt.call("work", id="w"))
        await work.running()
        await rt.close(patience=0)
        assert await why(handle.result()) == "closed"
        assert await why(caller) == "closed"
    async with make([work.tool], sqlite) as rt:
        result = await outcome(rt, "w")
        record = await rt.get("w")
    assert (result.output, result.attempts) == (2, 2)
    assert work.keys[0] == work.keys[1] == record.idempotency_key
    assert states(record.events) == ["pending", "initializing", "running", "retrying", "running", "completed"]
    assert record.attempts[0].outcome == "outcome_unknown"
    assert_sound(record)


@pytest.mark.parametrize("options", [{}, {"recovery": "fail", "idempotent": True}], ids=repr)
async def test_of_what_may_not_be_repeated_the_outcome_is_unknown(sqlite: str, options: dict[str, Any]) -> None:
    work = Body(**options)
    async with make([work.tool], sqlite) as rt:
        handle = await rt.submit("work", id="w")
        await work.running()
        await rt.close(patience=0)
        result = await handle.result()
    assert result.state is State.FAILED
    assert result.error is not None
    assert result.error.code == "outcome_unknown"
    async with make([work.tool], sqlite) as rt:
        assert await outcome(rt, "w") == result
        assert_sound(await rt.get("w"))
    assert len(work.runs) == 1


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_recovery_ask_requests_an_approval_after_a_shutdown(sqlite: str, verdict: str) -> None:
    work = Body(recovery="ask")
    async with make([work.tool], sqlite) as rt:
        await rt.submit("work", id="w")
        await work.running()
        await rt.close(patience=0)
    async with make([work.tool], sqlite) as rt:
        record = await rt.get("w")
        assert (record.state, record.waiting_for) == (State.RETRYING, "approval")
        assert len(work.runs) == 1
        assert await getattr(rt, verdict)("w", by="Ada")
        result = await outcome(rt, "w")
        assert_sound(await rt.get("w"))
    assert result.output == (2 if verdict == "approve" else None)
    assert len(work.runs) == (2 if verdict == "approve" else 1)


async def test_in_memory_what_runs_is_cancelled() -> None:
    work = Body(idempotent=True)
    async with make([work.tool]) as rt:
        handle = await rt.submit("work")
        await work.running()
        await rt.close(patience=0)
    result = await handle.result()
    assert result.state is State.CANCELLED


async def test_a_streaming_call_keeps_what_it_said(sqlite: str) -> None:
    runs: list[int] = []

    @tool(idempotent=True)
    async def tell() -> Any:
        runs.append(1)
        yield f"run {len(runs)}"
        if len(runs) == 1:
            await asyncio.Event().wait()

    async with make([tell], sqlite) as rt:
        await rt.submit("tell", id="t")
        await until_state(rt, "t", State.STREAMING)
        await rt.close(patience=0)
    async with make([tell], sqlite) as rt:
        assert (await outcome(rt, "t")).success
        record = await rt.get("t")
    assert len({str(event.data) for event in record.events if event.type == "output"}) == 2
    assert "streaming" in states(record.events)
    assert_sound(record)


@pytest.mark.parametrize("options", [{}, {"idempotent": True}], ids=repr)
async def test_a_thread_that_does_not_return_is_left_to_itself(sqlite: str, options: dict[str, Any]) -> None:
    go, runs = threading.Event(), []

    @tool(**options)
    def stuck() -> int:
        runs.append(1)
        if len(runs) == 1:
            go.wait(PATIENCE)
        return len(runs)

    try:
        async with make([stuck], sqlite) as rt:
            await rt.submit("stuck", id="s")
            await eventually(lambda: runs)
            await asyncio.wait_for(rt.close(patience=0), PATIENCE)
        async with make([stuck], sqlite) as rt:
            result = await outcome(rt, "s")
            assert_sound(await rt.get("s"))
    finally:
        go.set()
    if options:
        assert (result.output, result.attempts) == (2, 2)
    else:
        assert result.error is not None
        assert result.error.code == "outcome_unknown"
        assert len(runs) == 1


async def test_a_cancel_from_outside_is_not_lost_when_the_call_is_handed_back(sqlite: str) -> None:
    work = Body(idempotent=True)
    async with make([work.tool], sqlite) as other:
        async with make([work.tool], sqlite) as rt:
            await rt.submit("work", id="w")
            await work.running()
            assert await other.cancel("w", reason="enough")
            await rt.close(patience=0)
        result = await outcome(other, "w")
        assert_sound(await other.get("w"))
    assert result.state is State.CANCELLED
    assert len(work.runs) == 1
