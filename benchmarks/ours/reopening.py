"""The cost of opening a store with no finished calls, 10,000 of them, and 100,000."""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path
from time import perf_counter

from benchmarks import timing
from benchmarks.ours.opening import runtime
from clicket import tool

_TIMES = 41


@tool
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


async def fill(variant: str, folder: Path, name: str, calls: int) -> None:
    async with runtime(variant, folder, [noop], name=name) as rt:

        async def caller(share: int) -> None:
            for n in range(share):
                result = await rt.call("noop", {"a": n}, thread=f"t{n % 50}")
                assert result.success, result.error

        await asyncio.gather(*(caller(calls // 100) for _ in range(100)))


async def opening(variant: str, folder: Path, name: str) -> float:
    """Milliseconds until a runtime over the store is open."""
    rt = runtime(variant, folder, [noop], name=name)
    start = perf_counter()
    await rt.open()
    taken = perf_counter() - start
    await rt.close()
    return taken * 1e3


async def main() -> None:
    variant = timing.budget().variant
    few, many = (500, 2_000) if timing.quick() else (10_000, 100_000)
    stores: dict[str, list[float]] = {"empty": [], "few": [], "many": []}
    with timing.scratch() as folder:
        for name, calls in (("empty", 0), ("few", few), ("many", many)):
            await fill(variant, folder, name, calls)
        for _ in range(_TIMES):
            for name, taken in stores.items():
                taken.append(await opening(variant, folder, name))
    figures = {f"open_{name}_ms": statistics.median(taken) for name, taken in stores.items()}
    timing.report({**figures, "finished": many}, timing.versions("clicket"))


asyncio.run(main())
