"""One process submits, others run: `process-2` is SQLite in process mode with two workers, `redis-0` runs it all itself."""

from __future__ import annotations

import asyncio
import statistics
from contextlib import nullcontext
from time import monotonic, perf_counter

from benchmarks import timing
from benchmarks.ours.opening import place, runtime
from benchmarks.ours.work import TOOLS, Bodies, Workers, workers
from clicket import Runtime

_AT_ONCE = 10
_CALLS = {"noop": 3_000, "short": 2_000}


async def rate(rt: Runtime, name: str, calls: int) -> tuple[float, int]:
    """Calls per second, from the first submit to the last result; and how many of them did not complete."""
    start = perf_counter()
    handles = await asyncio.gather(*(rt.submit(name, {"a": n}, thread=f"t{n % 50}") for n in range(calls)))
    results = await asyncio.gather(*(handle.result() for handle in handles))
    taken = perf_counter() - start
    return calls / taken, sum(result.output != {"a": n} for n, result in enumerate(results))


async def latencies(rt: Runtime, seconds: float) -> tuple[dict[str, float], int]:
    """Milliseconds from before the submit to the body's start, and to the result, one call at a time."""
    starts: list[float] = []
    ends: list[float] = []
    stop = perf_counter() + seconds
    while len(starts) < 20 or perf_counter() < stop:
        submitted = monotonic()
        result = await rt.call("started", {}, thread="t")
        ends.append((monotonic() - submitted) * 1e3)
        assert result.success, result.error
        starts.append((result.output - submitted) * 1e3)
    figures = {
        "start_ms": statistics.median(starts),
        "start_p95_ms": statistics.quantiles(starts, n=20)[-1],
        "result_ms": statistics.median(ends),
    }
    return figures, len(starts)


async def main() -> None:
    arguments = timing.budget()
    variant, _, number = arguments.variant.rpartition("-")
    count = int(number)
    with timing.scratch() as folder:
        url, durability = place(variant, folder)
        fleet = workers(count, url, durability, _AT_ONCE) if count else nullcontext(Workers())
        with fleet as told:
            async with runtime(
                variant, folder, TOOLS, engine="workers" if count else "local", max_concurrency=_AT_ONCE
            ) as rt:
                figures, asked = await latencies(rt, arguments.seconds)
                wrong = 0
                for name, calls in _CALLS.items():
                    some = calls // 10 if timing.quick() else calls
                    figures[f"{name}_per_second"], failed = await rate(rt, name, some)
                    asked += some
                    wrong += failed
    bodies = told.bodies if count else Bodies.run
    timing.report({**figures, "not_completed": wrong, "miscounted": abs(bodies - asked)}, timing.versions("clicket"))


if __name__ == "__main__":
    asyncio.run(main())
