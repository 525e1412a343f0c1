"""A process with 10,000 running calls is killed: how long until another process has claimed them?"""

from __future__ import annotations

import asyncio
from collections import Counter
from time import perf_counter

from benchmarks import timing
from benchmarks.ours.opening import place, runtime
from benchmarks.ours.orphans import door, held
from clicket import Runtime, State

_ORPHANS = 10_000


async def main() -> None:
    variant = timing.budget().variant
    orphans = 500 if timing.quick() else _ORPHANS
    started = orphans // 2
    door.set()
    with timing.scratch() as folder:
        url, durability = place(variant, folder)
        with timing.worker("benchmarks.ours.orphans", url, durability, str(started), str(orphans - started)) as child:
            timing.await_ready(child)
            child.kill()
            child.wait()
        start = perf_counter()
        async with runtime(variant, folder, [held]) as rt:
            opened = perf_counter()
            await rt.recover()
            recovered = perf_counter()
            while await unfinished(rt):  # noqa: ASYNC110  # nobody here holds a handle of these calls: the store is asked
                await asyncio.sleep(0.02)
            ended = perf_counter()
            outcomes = await count(rt)
    figures = {
        "orphans": orphans,
        "open_s": opened - start,
        "recover_s": recovered - start,
        "ended_s": ended - start,
        "unknown": outcomes["outcome_unknown"],
        "completed": outcomes["completed"],
        "lost": orphans - outcomes.total(),
        "wrong": abs(outcomes["outcome_unknown"] - started) + abs(outcomes["completed"] - (orphans - started)),
    }
    timing.report(figures, timing.versions("clicket"))


async def unfinished(rt: Runtime) -> bool:
    return any([(await rt.history(state=state, limit=1)).items for state in State if not state.is_terminal])


async def count(rt: Runtime) -> Counter[str]:
    """Every call of the store by its outcome."""
    found: Counter[str] = Counter()
    cursor = None
    while True:
        page = await rt.history(limit=1_000, cursor=cursor)
        found.update(record.error.code if record.error else record.state.value for record in page.items)
        cursor = page.cursor
        if cursor is None:
            return found


asyncio.run(main())
