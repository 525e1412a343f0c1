"""A monitor of the event loop, and load for it."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

from benchmarks import timing
from benchmarks.ours.opening import runtime
from clicket import tool

_TICK = 0.002
_WARM_UP = 0.2


def compute() -> int:
    """About 20 ms of Python that never releases the GIL by itself."""
    end, total = perf_counter() + 0.02, 0
    while perf_counter() < end:
        total += 1
    return total


@tool
def block(a: int) -> int:
    """Block for 20 ms."""
    time.sleep(0.02)
    return a


@tool
def work(a: int) -> int:
    """Compute for 20 ms."""
    return compute()


@tool
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


async def nothing() -> None:
    """An idle loop."""


async def watch(seconds: float, lates: list[float]) -> None:
    await asyncio.sleep(_WARM_UP)
    end = perf_counter() + seconds
    while (start := perf_counter()) < end:
        await asyncio.sleep(_TICK)
        lates.append((perf_counter() - start - _TICK) * 1_000)


async def under(call: Callable[[], Awaitable[object]], callers: int, seconds: float) -> dict[str, float]:
    """Monitor the loop while `callers` make one call after the other."""
    lates: list[float] = []
    calls = 0
    watching = asyncio.create_task(watch(seconds, lates))

    async def caller() -> None:
        nonlocal calls
        while not watching.done():
            await call()
            calls += 1

    await asyncio.gather(watching, *(caller() for _ in range(callers)))
    return {
        "longest_ms": max(lates),
        "p99_ms": statistics.quantiles(lates, n=100, method="inclusive")[-1],
        "calls": calls,
    }


async def ours(variant: str, folder: Path, seconds: float) -> dict[str, float]:
    name = {"sync-sleep": "block", "sync-compute": "work"}.get(variant, "noop")
    store = "memory" if variant.startswith("sync") else variant
    async with runtime(store, folder, [block, work, noop]) as rt:

        async def call() -> None:
            result = await rt.call(name, {"a": 1}, thread="t")
            assert result.success, result.error

        return await under(call, timing.AT_ONCE if name == "noop" else 20, seconds)


async def main() -> None:
    arguments = timing.budget()
    seconds = arguments.seconds * 2
    if arguments.variant == "idle":
        figures = await under(nothing, 0, seconds)
    elif arguments.variant == "threads":
        figures = await under(lambda: asyncio.to_thread(compute), 4, seconds)
    else:
        with timing.scratch() as folder:
            figures = await ours(arguments.variant, folder, seconds)
    timing.report(figures, timing.versions("clicket"))


asyncio.run(main())
