"""`python -m benchmarks.simulation.compare`: a small fleet on PostgreSQL, measured and simulated.

The CPU of a call in the store, the submitter and the worker is measured with one worker and 100 callers. The simulation gets these
costs and predicts the rates with one, two and four workers on the same cores.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import msgspec

from benchmarks.ours.fleet import cpu_of, crowd
from benchmarks.ours.opening import settings
from benchmarks.ours.work import TOOLS, workers
from benchmarks.servers import running
from benchmarks.simulation.costs import Costs
from benchmarks.simulation.fleet import Fleet, Plan
from clicket import Runtime

_CALLS = 3_000
_SLOTS = 10
_COUNTS = (1, 2, 4)


class Measured(msgspec.Struct, kw_only=True):
    """Milliseconds of CPU for a call in each place, calls per second with 100 callers, and milliseconds with one caller."""

    store: float
    submitter: float
    worker: float
    rate: float
    one: float


async def measured(url: str, servers: list[int], count: int) -> Measured:
    with workers(count, url, "process", _SLOTS) as fleet:
        limits = settings(max_concurrency=_SLOTS)
        async with Runtime(tools=TOOLS, store=url, engine="workers", settings=limits) as rt:
            await crowd(rt, 200)
            waits: list[float] = []
            for n in range(200):
                began = perf_counter()
                await rt.call("noop", {"a": n}, thread="t")
                waits.append((perf_counter() - began) * 1e3)
            before = (cpu_of(servers), process_time(), cpu_of(fleet.pids))
            rate = await crowd(rt, _CALLS)
            after = (cpu_of(servers), process_time(), cpu_of(fleet.pids))
    store, submitter, worker = (1e3 * (b - a) / _CALLS for a, b in zip(before, after, strict=True))
    return Measured(store=store, submitter=submitter, worker=worker, rate=rate, one=statistics.median(waits))


def predicted(costs: Measured, count: int) -> float:
    """Calls per second that the simulation gives for these costs on the cores of this machine."""
    share = costs.store / 1e3 / 6
    given = Costs(
        accept=0.0, accept_each=2 * share, claim=0.0, claim_each=2 * share, outcome=0.0, outcome_each=2 * share,
        empty_claim=share, submitter=costs.submitter / 1e3, worker=costs.worker / 1e3,
    )  # fmt: skip
    cores = os.cpu_count() or 1
    plan = Plan(
        seconds=0.5, rate=0.0, greedy=_CALLS, callers=1, submitters=1, workers=count, slots=_SLOTS, body=0.0, store_cores=cores,
        shared=True, costs=given,
    )  # fmt: skip
    return Fleet(plan).run().rate


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        asyncio.run(_compare(Path(folder)))


async def _compare(folder: Path) -> None:
    with running(["postgres"], folder) as place:
        servers = [int(pid) for pid in place["BENCH_SERVER_PIDS"].split()]
        found = {count: await measured(place["BENCH_POSTGRES"], servers, count) for count in _COUNTS}
    first = found[1]
    print(
        f"CPU of a call: store {first.store:.2f} ms, submitter {first.submitter:.2f} ms, worker {first.worker:.2f} ms"
    )
    print("| workers | one caller, p50 | 100 callers, measured | simulated | CPU of a call |\n|---|---|---|---|---|")
    for count, each in found.items():
        cpu = each.store + each.submitter + each.worker
        print(f"| {count} | {each.one:.1f} ms | {each.rate:,.0f}/s | {predicted(first, count):,.0f}/s | {cpu:.2f} ms |")


if __name__ == "__main__":
    main()
