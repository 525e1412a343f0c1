"""100 concurrent calls in each durability mode, and one writer that syncs for every commit. `power+5`: on a disk 5 ms slower.

Every variant first measures the disk itself: a small append and its fdatasync, one at a time.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import timing
from benchmarks.ours.opening import runtime
from benchmarks.ours.recorded import Recorded
from benchmarks.ours.slow_sync import slow_down
from clicket import tool

COMMITS_A_CALL = 2
"""The commits that a call waits for: its intent, before the tool runs, and its outcome, before the caller gets it."""
_RECORDED = 100


@tool
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


def syncs(folder: Path, seconds: float) -> tuple[float, float]:
    """Syncs per second, and the microseconds of one (the median)."""
    file = os.open(folder / "appended", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    taken: list[float] = []
    start = end = perf_counter()
    while end < start + seconds:
        before = end
        os.write(file, bytes(4096))
        os.fdatasync(file)
        end = perf_counter()
        taken.append(end - before)
    os.close(file)
    return len(taken) / (end - start), statistics.median(taken) * 1e6


async def concurrent(variant: str, folder: Path, seconds: float) -> dict[str, float]:
    async with runtime(variant, folder, [noop]) as rt:

        async def call() -> Any:
            return await rt.call("noop", {"a": 1}, thread="t")

        result = await call()
        assert result.success, result.error
        return await timing.at_once(call, seconds=seconds)


async def _record(folder: Path) -> None:
    async with runtime("process", folder, [noop]) as rt:
        results = await asyncio.gather(*(rt.call("noop", {"a": 1}, thread="t") for _ in range(_RECORDED)))
        assert all(result.success for result in results)


def one_by_one(folder: Path, seconds: float) -> dict[str, float]:
    """The rows of real calls, written by apsw alone: each call's commits one after the other, each synced separately."""
    asyncio.run(_record(folder))
    recorded = Recorded(folder / "calls.db")
    taken: list[float] = []
    end = perf_counter() + seconds
    while not taken or perf_counter() < end:
        path = folder / f"single-{len(taken)}.db"
        taken.append(recorded.insert(path, "FULL", _RECORDED * COMMITS_A_CALL) / _RECORDED)
    each = statistics.median(taken)
    return {"p50_us": each * 1e6, "per_second": 1 / each}


def main() -> None:
    arguments = timing.budget()
    variant, _, slower = arguments.variant.partition("+")
    slow_down(int(slower or 0))
    with timing.scratch() as folder:
        per_second, one_us = syncs(folder, arguments.seconds)
        if variant == "one-by-one":
            figures = one_by_one(folder, arguments.seconds)
        else:
            figures = asyncio.run(concurrent(variant, folder, arguments.seconds))
    if variant == "power":
        figures["bound_per_second"] = timing.AT_ONCE * per_second / COMMITS_A_CALL
        figures["syncs_waited_for"] = figures["p50_us"] / one_us
    timing.report({**figures, "syncs_per_second": per_second}, timing.versions("clicket", "apsw"))


main()
