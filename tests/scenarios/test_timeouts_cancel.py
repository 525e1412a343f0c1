"""Timeouts and cancels stop work, end a call once, and say what was left behind."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any

import pytest

from clicket import RetryableError, State, ToolContext, tool
from clicket.errors import UsageError
from tests.scenarios.kit import GRACE, assert_sound, eventually, make, states, types


def assert_timeout(result: Any, phase: str) -> None:
    assert result.state is State.TIMEOUT
    assert result.error.code == "timeout"
    assert result.metadata["phase"] == phase
    assert result.error.message


# Attempts ------------------------------------------------------------------------------------------------------------


async def test_an_async_body_is_stopped_when_its_time_is_up(store: str) -> None:
    stopped = []

    @tool(timeout=0.1)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    async with make([slow], store) as rt:
        started = time.monotonic()
        result = await rt.call("slow")
        took = time.monotonic() - started
        record = await rt.get(result.call_id)
    assert_timeout(result, "attempt")
    assert stopped == [True]
    assert 0.1 <= took < 2
    assert result.attempts == 1
    assert "abandoned" not in result.metadata
    assert record.ended_at is not None
    assert record.attempts[0].outcome == "timeout"
    assert_sound(record)


async def test_the_calls_own_timeout_wins_over_the_tools(store: str) -> None:
    @tool(timeout=60)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with make([slow], store) as rt:
        assert_timeout(await rt.call("slow", timeout=0.05), "attempt")


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_tools_own_timeout_error_is_a_tool_error(store: str, kind: str) -> None:
    @tool
    async def by_loop() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    @tool
    def by_thread() -> None:
        raise TimeoutError("the socket's")

    async with make([by_loop, by_thread], store) as rt:
        result = await rt.call("by_loop" if kind == "async" else "by_thread")
    assert result.state is State.FAILED
    assert result.error is not None
    assert (result.error.code, result.error.type) == ("tool_error", "TimeoutError")


@pytest.mark.parametrize("option", ["idempotent", "read_only"])
async def test_a_timed_out_tool_that_may_be_repeated_is_tried_again(store: str, option: str) -> None:
    seen = []

    @tool(timeout=0.05, retry_delay=0.001, **{option: True})
    async def slow_at_first(ctx: ToolContext) -> str:
        seen.append((ctx.attempt, ctx.idempotency_key))
        if len(seen) == 1:
            await asyncio.Event().wait()
        return "done"

    async with make([slow_at_first], store) as rt:
        result = await rt.call("slow_at_first")
        record = await rt.get(result.call_id)
    assert result.output == "done"
    assert [attempt for attempt, _ in seen] == [1, 2]
    assert len({key for _, key in seen}) == 1
    assert states(record.events) == ["pending", "initializing", "running", "retrying", "running", "completed"]
    assert_sound(record)


async def test_a_timed_out_tool_with_no_retries_left_ends_as_timeout(store: str) -> None:
    runs = []

    @tool(timeout=0.03, retry_delay=0.001, max_retries=2, idempotent=True)
    async def slow() -> None:
        runs.append(1)
        await asyncio.Event().wait()

    async with make([slow], store) as rt:
        result = await rt.call("slow")
    assert_timeout(result, "attempt")
    assert len(runs) == result.attempts == 3


async def test_idle_timeout_ends_a_silent_attempt_and_signs_of_life_hold_it_off(store: str) -> None:
    @tool(idle_timeout=0.15, timeout=30)
    async def silent() -> None:
        await asyncio.Event().wait()

    @tool(idle_timeout=0.15, timeout=30)
    async def lively(ctx: ToolContext, how: str) -> str:
        for i in range(8):
            {"heartbeat": ctx.heartbeat, "progress": lambda i=i: ctx.progress(i), "emit": lambda: ctx.emit("x")}[how]()
            await asyncio.sleep(0.04)
        return how

    async with make([silent, lively], store) as rt:
        results = await rt.call_many([("silent", {}), *(("lively", {"how": h}) for h in ("heartbeat", "progress", "emit"))])
    assert_timeout(results[0], "idle")
    assert [r.output for r in results[1:]] == ["heartbeat", "progress", "emit"]


async def test_a_thread_that_is_alive_is_not_idle(store: str) -> None:
    @tool(idle_timeout=0.15, timeout=30)
    def lively(ctx: ToolContext) -> str:
        for _ in range(8):
            ctx.heartbeat()
            time.sleep(0.04)
        return "alive"

    async with make([lively], store) as rt:
        assert (await rt.call("lively")).output == "alive"


# Whole-call deadlines ------------------------------------------------------------------------------------------------


async def test_a_deadline_ends_a_call_that_is_queued(store: str) -> None:
    gate = asyncio.Event()
    ran = []

    @tool
    async def hold() -> None:
        await gate.wait()

    @tool
    async def quick() -> None:
        ran.append(1)

    async with make([hold, quick], store, max_concurrency=1) as rt:
        first = await rt.submit("hold")
        result = await rt.call("quick", deadline=0.05)
        assert_timeout(result, "deadline")
        assert result.attempts == 0
        gate.set()
        assert (await first.result()).success
        record = await rt.get(result.call_id)
    assert not ran
    assert states(record.events) == ["pending", "timeout"]
    assert_sound(record)


async def test_a_deadline_ends_a_call_that_runs(store: str) -> None:
    @tool(idempotent=True)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with make([slow], store) as rt:
        result = await rt.call("slow", deadline=0.05)
    assert_timeout(result, "deadline")
    assert result.attempts == 1  # a deadline is the call's, not the attempt's: no second try


async def test_a_deadline_ends_a_call_that_backs_off(store: str) -> None:
    @tool(retry_delay=60)
    async def flaky() -> None:
        raise RetryableError("x")

    async with make([flaky], store) as rt:
        result = await rt.call("flaky", deadline=0.05)
        record = await rt.get(result.call_id)
    assert_timeout(result, "deadline")
    assert states(record.events)[-2:] == ["retrying", "timeout"]
    assert_sound(record)


async def test_queue_timeout(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def hold() -> None:
        await gate.wait()

    async with make([hold], store, max_concurrency=1, queue_timeout=0.05) as rt:
        first = await rt.submit("hold")
        assert_timeout(await rt.call("hold"), "queue")
        gate.set()
        assert (await first.result()).success


async def test_the_wait_in_the_queue_does_not_count_against_the_attempt(store: str) -> None:
    gate = asyncio.Event()
    lefts = []

    @tool
    async def hold() -> None:
        await gate.wait()

    @tool(timeout=0.2)
    async def quick(ctx: ToolContext) -> str:
        lefts.append(ctx.time_left)
        return "in time"

    async with make([hold, quick], store, max_concurrency=1) as rt:
        first = await rt.submit("hold")
        second = await rt.submit("quick")
        with pytest.raises(TimeoutError):  # longer than the whole timeout of the one that waits
            await asyncio.wait_for(second.result(), 0.25)
        gate.set()
        assert (await second.result()).output == "in time"
        await first.result()
    assert lefts[0] > 0.1


# Cancel, in every state ----------------------------------------------------------------------------------------------


async def test_cancel_while_queued(store: str) -> None:
    gate = asyncio.Event()
    ran = []

    @tool
    async def hold() -> None:
        await gate.wait()

    @tool
    async def never() -> None:
        ran.append(1)

    async with make([hold, never], store, max_concurrency=1) as rt:
        first = await rt.submit("hold")
        queued = await rt.submit("never")
        assert await rt.state(queued.id) is State.PENDING
        assert await rt.cancel(queued.id, reason="changed my mind")
        result = await queued.result()
        gate.set()
        await first.result()
        record = await rt.get(queued.id)
        assert not await rt.cancel(queued.id)
    assert result.state is State.CANCELLED
    assert result.error is not None
    assert result.error.code == "cancelled"
    assert "changed my mind" in result.error.message
    assert not ran
    assert states(record.events) == ["pending", "cancelled"]
    assert "cancel_requested" in types(record)
    assert record.ended_at is not None
    assert_sound(record)


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancel_while_running_or_streaming_stops_the_body(store: str, streaming: bool) -> None:
    started = asyncio.Event()
    stopped = []

    @tool
    async def endless(ctx: ToolContext) -> None:
        try:
            if streaming:
                ctx.emit("x")
                await ctx.drain()
            started.set()
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    async with make([endless], store) as rt:
        handle = await rt.submit("endless")
        await started.wait()
        assert await rt.cancel(handle.id)
        assert stopped == [True]  # the work has stopped when cancel returns
        result = await handle.result()
        record = await rt.get(handle.id)
    assert result.state is State.CANCELLED
    assert states(record.events)[-2:] == ["streaming" if streaming else "running", "cancelled"]
    assert_sound(record)


async def test_cancel_right_after_submit(store: str) -> None:
    ran = []

    @tool
    async def quick() -> str:
        ran.append(1)
        await asyncio.sleep(0)
        return "done"

    async with make([quick], store) as rt:
        for _ in range(50):
            handle = await rt.submit("quick")
            took_effect = await handle.cancel()
            result = await handle.result()
            record = await rt.get(handle.id)
            assert_sound(record)
            assert result.state is record.state
            assert took_effect == (result.state is State.CANCELLED)


async def test_cancel_of_an_ended_call_changes_nothing(store: str) -> None:
    @tool
    async def quick() -> int:
        return 1

    async with make([quick], store) as rt:
        result = await rt.call("quick", id="q")
        before = await rt.get("q")
        assert not await rt.cancel("q")
        assert await rt.get("q") == before
        assert result.success


async def test_a_cancelled_caller_cancels_its_call(store: str) -> None:
    started, stopped = asyncio.Event(), []

    @tool
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    async with make([endless], store) as rt:
        task = asyncio.create_task(rt.call("endless", id="e"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped == [True]
        record = await rt.get("e")
    assert record.state is State.CANCELLED
    assert_sound(record)


async def test_who_stops_waiting_for_a_submitted_call_does_not_disturb_it(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        await gate.wait()
        return "done"

    async with make([wait], store) as rt:
        handle = await rt.submit("wait")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle.result(), 0.01)
        gate.set()
        assert (await handle.result()).output == "done"


async def test_a_sync_tool_sees_the_cancel_and_returns(store: str) -> None:
    started = threading.Event()

    @tool
    def patient(ctx: ToolContext) -> str:
        started.set()
        while not ctx.cancelled:
            time.sleep(0.002)
        return "cleaned up"

    async with make([patient], store, cancel_grace=5) as rt:
        handle = await rt.submit("patient")
        await eventually(started.is_set)
        assert await handle.cancel()
        result = await handle.result()
        record = await rt.get(handle.id)
    assert result.state is State.CANCELLED
    assert "abandoned" not in result.metadata
    assert [e.data for e in record.events if e.type == "late_result"] == [{"output": "cleaned up"}]
    assert_sound(record)


# What cannot be stopped ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_a_body_that_swallows_its_cancellation_is_abandoned_and_keeps_its_slot(store: str, how: str) -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    @tool(timeout=0.05 if how == "timeout" else 30)
    async def stubborn() -> str:
        started.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    @tool
    async def quick() -> str:
        return "quick"

    async with make([stubborn, quick], store, max_concurrency=1) as rt:
        handle = await rt.submit("stubborn")
        await started.wait()
        if how == "cancel":
            assert await handle.cancel()
        result = await handle.result()
        assert result.state is (State.TIMEOUT if how == "timeout" else State.CANCELLED)
        assert result.metadata["abandoned"] is True
        assert result.duration >= GRACE
        waiting = await rt.submit("quick")
        with pytest.raises(TimeoutError):  # the slot is taken until the body has really returned
            await asyncio.wait_for(waiting.result(), 0.1)
        assert "late_result" not in types(await rt.get(handle.id))
        gate.set()
        assert (await waiting.result()).output == "quick"

        async def late() -> Any:
            return [e for e in (await rt.get(handle.id)).events if e.type == "late_result"]

        [event] = await eventually(late)
        assert event.data == {"output": "late"}
        record = await rt.get(handle.id)
        assert record.state is result.state
        assert record.output is None
        assert_sound(record)
        replayed = [e async for e in (await rt.handle(handle.id)).events()]
        assert replayed == record.events
        assert (await (await rt.handle(handle.id)).result()) == result


async def test_a_body_that_swallows_its_cancellation_and_fails_leaves_the_failure_on_record(store: str) -> None:
    @tool(timeout=0.05)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("while cleaning up") from None
        return ""

    async with make([stubborn], store) as rt:
        result = await rt.call("stubborn")
        record = await rt.get(result.call_id)
    assert_timeout(result, "attempt")
    [late] = [e for e in record.events if e.type == "late_result"]
    assert late.data["error"]["message"] == "while cleaning up"
    assert_sound(record)


@pytest.mark.parametrize("value", ["late", None])
async def test_a_thread_tool_ends_on_time_is_abandoned_and_keeps_its_slot(store: str, value: Any) -> None:
    gate = threading.Event()

    @tool(timeout=0.1)
    def stuck() -> Any:
        gate.wait(30)
        return value

    @tool
    def quick() -> str:
        return "quick"

    try:
        async with make([stuck, quick], store, worker_threads=1) as rt:
            started = time.monotonic()
            result = await rt.call("stuck")
            took = time.monotonic() - started
            assert_timeout(result, "attempt")
            assert 0.1 <= took < 1
            assert result.metadata["abandoned"] is True
            waiting = await rt.submit("quick")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting.result(), 0.1)
            gate.set()
            assert (await waiting.result()).output == "quick"

            async def late() -> Any:
                return [e.data for e in (await rt.get(result.call_id)).events if e.type == "late_result"]

            assert await eventually(late, within=2) == [{"output": value}]
            assert_sound(await rt.get(result.call_id))
    finally:
        gate.set()


async def test_a_thread_that_ignores_a_cancel_is_abandoned_after_the_grace(store: str) -> None:
    gate, started = threading.Event(), threading.Event()

    @tool
    def stuck() -> None:
        started.set()
        gate.wait(30)
        raise ValueError("too late")

    try:
        async with make([stuck], store) as rt:
            handle = await rt.submit("stuck")
            await eventually(started.is_set)
            asked = time.monotonic()
            assert await handle.cancel()
            took = time.monotonic() - asked
            result = await handle.result()
            assert GRACE <= took < 2
            assert result.state is State.CANCELLED
            assert result.metadata["abandoned"] is True
            gate.set()

            async def late() -> Any:
                return [e.data for e in (await rt.get(handle.id)).events if e.type == "late_result"]

            [data] = await eventually(late)
            assert data["error"]["type"] == "ValueError"
    finally:
        gate.set()


async def test_an_abandoned_body_says_nothing_more(store: str) -> None:
    gate = threading.Event()

    @tool(timeout=0.05)
    def chatty(ctx: ToolContext) -> None:
        ctx.emit("before")
        gate.wait(30)
        ctx.emit("after")
        ctx.progress(1, 2)
        ctx.heartbeat()
        raise ValueError("end")

    try:
        async with make([chatty], store) as rt:
            result = await rt.call("chatty")
            gate.set()

            async def late() -> bool:
                return "late_result" in types(await rt.get(result.call_id))

            await eventually(late)
            record = await rt.get(result.call_id)
        assert [e.data["content"] for e in record.events if e.type == "output"] == ["before"]
        assert_sound(record)
    finally:
        gate.set()


async def test_closing_does_not_wait_for_a_stuck_thread(store: str) -> None:
    gate = threading.Event()

    @tool(timeout=0.05)
    def stuck() -> None:
        gate.wait(30)

    try:
        started = time.monotonic()
        async with make([stuck], store) as rt:
            await rt.call("stuck")
        assert time.monotonic() - started < 3
    finally:
        gate.set()


# Races ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contest", ["complete-cancel", "fail-cancel", "complete-timeout", "cancel-cancel", "cancel-timeout"])
async def test_of_all_that_race_one_wins(store: str, contest: str) -> None:
    """Both sides are let go in one turn of the loop, in an order and with detours that the seed decides."""
    seeds = 150 if store == "memory://" else 60
    gates: dict[str, asyncio.Event] = {}

    @tool(max_retries=0)
    async def body(ctx: ToolContext, detours: int) -> str:
        gates[ctx.call_id].set()
        await gates[ctx.call_id + "!"].wait()
        for _ in range(detours):
            await asyncio.sleep(0)
        if contest.startswith("fail"):
            raise ValueError("lost")
        return "won"

    ends: set[State] = set()
    async with make([body], store, max_concurrency=1) as rt:
        for seed in range(seeds):
            chance = random.Random(seed)
            id = f"c{seed}"
            gates[id], gates[id + "!"] = asyncio.Event(), asyncio.Event()
            # A timeout that is due at about the moment when the body is let go.
            limit = 0.01 if contest.endswith("timeout") else 30
            handle = await rt.submit("body", {"detours": chance.randrange(5)}, id=id, timeout=limit)
            await gates[id].wait()

            async def release() -> None:
                if contest.endswith("timeout"):
                    await asyncio.sleep(chance.uniform(0.008, 0.012))
                for _ in range(chance.randrange(5)):
                    await asyncio.sleep(0)
                gates[id + "!"].set()

            async def cancel() -> bool:
                for _ in range(chance.randrange(8)):
                    await asyncio.sleep(0)
                return await rt.cancel(id)

            rivals = [release()]
            if "cancel" in contest:
                rivals.extend(cancel() for _ in range(2 if contest == "cancel-cancel" else 1))
            if contest.startswith("cancel"):
                rivals.reverse()
            answers = await asyncio.gather(*rivals)
            result = await handle.result()
            record = await rt.get(id)
            assert_sound(record)
            assert record.state is result.state
            assert [e.is_terminal for e in record.events].count(True) == 1
            ends.add(result.state)
            if True in answers and "timeout" not in contest:
                assert result.state is State.CANCELLED
        assert not any(rt.engine.limiter.used.values())  # no slot was lost or given twice
    assert ends  # which side wins is up to the seed; that there is one outcome is not


@pytest.mark.parametrize("seed", range(10))
async def test_thread_bodies_race_with_their_timeout(store: str, seed: int) -> None:
    chance = random.Random(seed)

    @tool(timeout=0.02, max_retries=0)
    def body(wait: float) -> str:
        time.sleep(wait)
        return "won"

    async with make([body], store, max_concurrency=8, worker_threads=4) as rt:
        results = await rt.call_many([("body", {"wait": chance.uniform(0.012, 0.028)}) for _ in range(12)], max_concurrency=4)
        records = [await rt.get(r.call_id) for r in results]
        for result, record in zip(results, records, strict=True):
            assert_sound(record)
            assert record.state is result.state
            assert result.state in (State.COMPLETED, State.TIMEOUT)
        await eventually(lambda: not any(rt.engine.limiter.used.values()))


async def test_a_second_cancel_waits_for_the_first(store: str) -> None:
    started = asyncio.Event()

    @tool
    async def slow_to_stop() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.03)

    async with make([slow_to_stop], store) as rt:
        handle = await rt.submit("slow_to_stop")
        await started.wait()
        assert await asyncio.gather(*(handle.cancel() for _ in range(3))) == [True, True, True]
        record = await rt.get(handle.id)
    assert types(record).count("cancel_requested") == 1
    assert_sound(record)


async def test_cancel_from_another_process_reaches_the_body(sqlite: str) -> None:
    """Two runtimes over one file stand for two processes: the second only writes a request."""
    started, stopped = asyncio.Event(), []

    @tool
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    async with make([endless], sqlite) as owner, make([endless], sqlite) as other:
        handle = await owner.submit("endless", id="e")
        await started.wait()
        assert await other.cancel("e", reason="from afar")
        result = await asyncio.wait_for(handle.result(), 5)
        assert result.state is State.CANCELLED
        assert result.error is not None
        assert "from afar" in result.error.message
        assert stopped == [True]
        record = await other.get("e")
        assert_sound(record)
        assert (await (await other.handle("e")).result()) == result


async def test_cancel_needs_thread_only_when_two_threads_share_the_id(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def hold() -> None:
        await gate.wait()

    async with make([hold], store) as rt:
        one = await rt.submit("hold", id="same", thread="a")
        two = await rt.submit("hold", id="same", thread="b")
        for ask in (rt.cancel, rt.get, rt.state, rt.handle):
            with pytest.raises(UsageError, match="thread="):
                await ask("same")
        assert await rt.cancel("same", thread="b")
        assert (await two.result()).state is State.CANCELLED
        gate.set()
        assert (await one.result()).success
