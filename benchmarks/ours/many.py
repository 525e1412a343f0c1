"""10,000 calls at once: all accepted while the first 100 hold all slots, then all ended."""

from __future__ import annotations

import asyncio
import gc
import resource
import threading
from pathlib import Path
from time import perf_counter

from benchmarks import timing
from benchmarks.ours.opening import runtime
from clicket import tool

CALLS = 10_000
LIMIT = 100


class Gate:
    """Holds every body until it is opened, and counts how many ran at once."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.running = 0
        self.most = 0
        self.full = asyncio.Event()

    async def body(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == LIMIT:
            self.full.set()
        await self.opened.wait()
        self.running -= 1


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def bare() -> dict[str, float]:
    gate, door = Gate(), asyncio.Semaphore(LIMIT)

    async def one() -> None:
        async with door:
            await gate.body()

    gc.collect()
    before, start = resident(), perf_counter()
    tasks = [asyncio.create_task(one()) for _ in range(CALLS)]
    await gate.full.wait()
    waiting, accepted = resident() - before, perf_counter()
    gate.opened.set()
    await asyncio.gather(*tasks)
    return {
        "bytes_per_call": waiting / CALLS,
        "waiting_bytes": waiting,
        "peak_bytes": peak() - before,
        "most_running": gate.most,
        "submit_s": accepted - start,
        "finish_s": perf_counter() - accepted,
    }


async def ours(variant: str, folder: Path) -> dict[str, float]:
    gate = Gate()

    @tool(timeout=300)
    async def wait(a: int) -> dict[str, int]:
        """Wait for the gate."""
        await gate.body()
        return {"a": a}

    tasks_before, threads_before = len(asyncio.all_tasks()), threading.active_count()
    async with runtime(variant, folder, [wait], max_concurrency=LIMIT, max_queue=CALLS) as rt:
        gate.opened.set()
        await rt.call("wait", {"a": 0}, thread="t")  # one-time costs do not count per call
        gate.opened.clear()
        gc.collect()
        before, start = resident(), perf_counter()
        handles = await asyncio.gather(*(rt.submit("wait", {"a": n}, thread=f"t{n % 50}") for n in range(CALLS)))
        await gate.full.wait()
        waiting, accepted = resident() - before, perf_counter()
        gate.opened.set()
        results = await asyncio.gather(*(handle.result() for handle in handles))
        finished = perf_counter()
        wrong = sum(not result.success or result.output != {"a": n} for n, result in enumerate(results))
    return {
        "bytes_per_call": waiting / CALLS,
        "waiting_bytes": waiting,
        "peak_bytes": peak() - before,
        "most_running": gate.most,
        "submit_s": accepted - start,
        "finish_s": finished - accepted,
        "not_completed": wrong,
        "tasks_left": len(asyncio.all_tasks()) - tasks_before,
        "threads_left": threading.active_count() - threads_before,
    }


async def main() -> None:
    variant = timing.budget().variant
    with timing.scratch() as folder:
        figures = await (bare() if variant == "tasks" else ours(variant, folder))
    timing.report(figures, timing.versions("clicket"))


asyncio.run(main())
