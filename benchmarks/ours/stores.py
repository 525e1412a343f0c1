"""One no-op call, all six stages, on each store; `redis-worker`: submitted here, run in a worker process."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

from benchmarks import timing
from benchmarks.ours.opening import place, runtime
from benchmarks.ours.work import TOOLS, workers


async def main() -> None:
    arguments = timing.budget()
    variant = arguments.variant.removesuffix("-worker")
    apart = variant != arguments.variant
    with timing.scratch() as folder:
        url, durability = place(variant, folder)
        with workers(1, url, durability, timing.AT_ONCE) if apart else nullcontext():
            async with runtime(variant, folder, TOOLS, engine="workers" if apart else None) as rt:

                async def call() -> Any:
                    return await rt.call("noop", {"a": 1}, thread="t")

                result = await call()
                assert result.success, result.error
                assert result.output == {"a": 1}
                figures = await timing.at_once(call, seconds=arguments.seconds)
    timing.report(figures, timing.versions("clicket", "apsw", "redis", "psycopg"))


asyncio.run(main())
