"""The public fakes: a clock that a test advances, and a deterministic runtime."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from clicket import RetryableError, State, ToolContext, tool
from clicket.errors import UsageError
from clicket.testing import StepClock, memory_runtime


def test_time_stands_still_until_it_is_stepped() -> None:
    clock = StepClock(start=1000.0)
    assert (clock.now(), clock.monotonic()) == (1000.0, 0.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (1002.5, 2.5)


def test_timers_run_in_order_each_at_its_own_time() -> None:
    clock = StepClock()
    ran: list[tuple[str, float]] = []

    def note(name: str) -> None:
        ran.append((name, clock.monotonic()))

    clock.call_later(3, note, "c")
    clock.call_later(1, note, "a")
    clock.call_later(1, note, "b")
    clock.call_later(9, note, "later")
    clock.call_later(2, lambda: clock.call_later(1.5, note, "set by a timer"))
    dropped = clock.call_later(1, note, "dropped")
    dropped.cancel()
    assert clock.pending == [1, 1, 2, 3, 9]
    clock.advance(4)
    assert ran == [("a", 1), ("b", 1), ("c", 3), ("set by a timer", 3.5)]
    assert clock.monotonic() == 4
    assert clock.pending == [5]


def test_a_timer_of_no_time_waits_for_the_next_step() -> None:
    clock = StepClock()
    ran: list[int] = []
    clock.call_later(0, ran.append, 1)
    clock.call_later(-5, ran.append, 2)
    assert ran == []
    clock.advance(0)
    assert ran == [1, 2]
    assert clock.monotonic() == 0


async def test_settle_lets_everything_run_that_can() -> None:
    clock = StepClock()
    steps: list[int] = []

    async def work(n: int) -> None:
        for _ in range(n):
            await asyncio.sleep(0)
        steps.append(n)

    tasks = [asyncio.ensure_future(work(n)) for n in (50, 3, 0)]
    await clock.settle()
    assert steps == [0, 3, 50]
    await asyncio.gather(*tasks)


async def test_settle_says_when_there_is_no_rest() -> None:
    async def restless() -> None:
        while True:
            await asyncio.sleep(0)

    task = asyncio.ensure_future(restless())
    with pytest.raises(UsageError, match="idle"):
        await StepClock().settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_run_steps_from_timer_to_timer() -> None:
    """Work that a timer wakes may wait again, and is woken again at the right time."""
    clock = StepClock()
    woken: list[float] = []

    async def work() -> None:
        for _ in range(3):
            wake = asyncio.get_running_loop().create_future()
            clock.call_later(2, wake.set_result, None)
            await wake
            woken.append(clock.monotonic())

    task = asyncio.ensure_future(work())
    await clock.run(5)
    assert woken == [2, 4]
    assert clock.monotonic() == 5
    await clock.run(1)
    await task
    assert woken == [2, 4, 6]


@tool(max_retries=5, retry_delay=4.0)
async def flaky(ctx: ToolContext) -> int:
    if ctx.attempt < 4:
        raise RetryableError("again")
    return ctx.attempt


async def _delays(seed: int) -> list[float]:
    clock = StepClock()
    async with memory_runtime([flaky], clock=clock, seed=seed) as rt:
        handle = await rt.submit("flaky")
        await clock.run(100)
        result = await handle.result()
        assert (result.state, result.output, result.attempts) == (State.COMPLETED, 4, 4)
        record = await rt.get(handle.id)
        begun = [attempt.started_at for attempt in record.attempts]
        delays = [attempt.delay or 0.0 for attempt in record.attempts[:-1]]
        assert [b - a for a, b in pairwise(begun)] == pytest.approx(delays, abs=1e-5)
        return delays


async def test_a_seed_repeats_the_jitter() -> None:
    """Hours of waiting take no time, and give the same result each time."""
    first = await _delays(1)
    assert first == await _delays(1)
    assert first != await _delays(2)
    for retry, delay in enumerate(first):
        assert 2.0 * 2**retry <= delay <= 4.0 * 2**retry


async def test_a_memory_runtime_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKET_STORE", "nonsense://")
    monkeypatch.setenv("CLICKET_MAX_CONCURRENCY", "77")
    async with memory_runtime([flaky], max_queue=3) as rt:
        assert (rt.settings.store, rt.settings.limits.max_concurrency, rt.settings.limits.max_queue) == (
            "memory://",
            10,
            3,
        )


async def test_durations_are_those_of_the_clock() -> None:
    clock = StepClock()

    @tool
    async def wait() -> None:
        wake = asyncio.get_running_loop().create_future()
        clock.call_later(7, wake.set_result, None)
        await wake

    async with memory_runtime([wait], clock=clock) as rt:
        handle = await rt.submit("wait")
        await clock.run(7)
        assert (await handle.result()).duration == pytest.approx(7.0)
