"""One process submits, others run: `process-2` is SQLite in process mode with two workers, `redis-0` runs all calls itself, and
`postgres+nats-4` has four workers over PostgreSQL and a NATS server that carries messages."""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from time import monotonic, perf_counter, process_time

from benchmarks import timing
from benchmarks.ours.opening import place, settings
from benchmarks.ours.work import TOOLS, Bodies, Workers, workers
from clicket import Runtime

_AT_ONCE = 10
_CALLS = {"noop": 3_000, "short": 2_000}
_CALLERS = 100
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pids: Iterable[int]) -> float:
    """Seconds of CPU that processes and their children have used so far."""
    ticks = 0
    for pid in pids:
        family = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        for member in family:
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]))
    return ticks / _TICKS


async def crowd(rt: Runtime, calls: int) -> float:
    """Calls per second when 100 callers wait for one call each."""
    numbers = iter(range(calls))

    async def caller() -> None:
        for n in numbers:
            result = await rt.call("noop", {"a": n}, thread=f"t{n % 50}")
            assert result.output == {"a": n}, result.error

    start = perf_counter()
    await asyncio.gather(*(caller() for _ in range(_CALLERS)))
    return calls / (perf_counter() - start)


async def rate(rt: Runtime, name: str, calls: int) -> tuple[float, int]:
    """Calls per second, from the first submit to the last result; and how many did not complete."""
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
        "result_p95_ms": statistics.quantiles(ends, n=20)[-1],
        "p50_us": statistics.median(ends) * 1e3,
    }
    return figures, len(starts)


async def main() -> None:
    arguments = timing.budget()
    variant, _, number = arguments.variant.rpartition("-")
    variant, _, bus = variant.partition("+")
    if bus:
        os.environ["BENCH_NOTICES"] = timing.server(f"BENCH_{bus.upper()}")
    servers = [int(pid) for pid in os.environ.get("BENCH_SERVER_PIDS", "").split()]
    count = int(number)
    with timing.scratch() as folder:
        url, durability = place(variant, folder)
        fleet = workers(count, url, durability, _AT_ONCE) if count else nullcontext(Workers())
        with fleet as told:
            engine, limits = "workers" if count else "local", settings(max_concurrency=_AT_ONCE)
            given = limits.replace(notices=os.environ.get("BENCH_NOTICES"))
            async with Runtime(tools=TOOLS, store=url, durability=durability, engine=engine, settings=given) as rt:
                figures, asked = await latencies(rt, arguments.seconds)
                calls = 200 if timing.quick() else 2_000
                used = cpu_of([*servers, *told.pids]) + process_time()
                figures["per_second"] = await crowd(rt, calls)
                figures["cpu_ms"] = (cpu_of([*servers, *told.pids]) + process_time() - used) / calls * 1e3
                asked += calls
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
