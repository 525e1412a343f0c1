"""The upper bound: the rows of our calls, inserted again by apsw alone, prepared and in grouped commits.

The unit is calls, not rows.
"""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path
from time import perf_counter

from benchmarks import timing
from benchmarks.ours.opening import runtime
from benchmarks.ours.recorded import SYNCHRONOUS, Recorded
from clicket import tool

_CALLS = 2_000
_CALLS_A_COMMIT = 100


@tool
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


async def record(path: Path, durability: str) -> int:
    """Make calls, 100 at a time, and return how many events each has."""
    async with runtime(durability, path.parent, [noop]) as rt:
        last = ""
        for _ in range(_CALLS // 100):
            results = await asyncio.gather(*(rt.call("noop", {"a": 1}, thread="t") for _ in range(100)))
            assert all(result.success for result in results)
            last = results[-1].call_id
        return len((await rt.get(last)).events)


def main() -> None:
    arguments = timing.budget()
    synchronous = SYNCHRONOUS[arguments.variant]
    with timing.scratch() as folder:
        events = asyncio.run(record(folder / "calls.db", arguments.variant))
        recorded = Recorded(folder / "calls.db")
        grouped: list[float] = []
        one_by_one: list[float] = []
        end = perf_counter() + arguments.seconds
        while len(grouped) < 3 or perf_counter() < end:
            number = len(grouped)
            grouped.append(recorded.insert(folder / f"grouped-{number}.db", synchronous, _CALLS // _CALLS_A_COMMIT))
            one_by_one.append(recorded.insert(folder / f"single-{number}.db", synchronous, _CALLS))
    figures = {
        "p50_us": statistics.median(one_by_one) / _CALLS * 1e6,
        "per_second": _CALLS / statistics.median(grouped),
        "rows_per_call": recorded.count / _CALLS,
        "events_per_call": events,
    }
    timing.report(figures, timing.versions("apsw"))


main()
