"""pydantic-monty: its own interpreter for a subset of Python, in worker processes of a pool.

`cold`: a pool of one worker is made for each session. `pool`: sessions are taken from one pool, whose workers are warm.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from pydantic_monty import AsyncMonty, AsyncMontySession, CollectString

from benchmarks import sessions, timing

Open = tuple[AsyncMontySession, AsyncExitStack]


class MontyEngine:
    def __init__(self, pool: AsyncMonty | None = None) -> None:
        self._pool = pool

    async def open(self) -> Open:
        stack = AsyncExitStack()
        pool = self._pool or await stack.enter_async_context(AsyncMonty(min_processes=1, max_processes=1))
        return await stack.enter_async_context(pool.checkout()), stack

    async def run(self, session: Open, code: str) -> str:
        printed = CollectString()
        await session[0].feed_run(code, print_callback=printed)
        return printed.output

    async def close(self, session: Open) -> None:
        await session[1].aclose()


async def measured(engine: MontyEngine, seconds: float) -> dict[str, float]:
    starts, _, many = sessions.sizes()
    figures = {"start_ms": await sessions.first_results(engine, starts)}
    session = await engine.open()
    figures |= await sessions.blocks(engine, session, seconds)
    await engine.close(session)
    return figures | await sessions.side_by_side(engine, many)


async def main() -> None:
    arguments = timing.budget()
    if arguments.variant == "pool":
        async with AsyncMonty(min_processes=2, max_processes=sessions.sizes()[2]) as pool:
            figures = await measured(MontyEngine(pool), arguments.seconds)
    else:
        figures = await measured(MontyEngine(), arguments.seconds)
        figures["memory"] = await sessions.at_rest(MontyEngine())
    timing.report(figures, timing.versions("pydantic-monty"))


if __name__ == "__main__":
    asyncio.run(main())
