"""Leaves orphans: `python -m benchmarks.ours.orphans URL DURABILITY STARTED WAITING` prints "ready" and waits to be killed."""

from __future__ import annotations

import asyncio
import sys

from benchmarks.ours.opening import settings
from clicket import Runtime, tool

__all__ = ["door", "held"]

door = asyncio.Event()
"""Closed in the process that is killed, so that no body ends there; the recovering process opens it."""


@tool(timeout=3600)
async def held(a: int) -> dict[str, int]:
    """Return a small dict, once the gate is open."""
    await door.wait()
    return {"a": a}


async def leave(url: str, durability: str, started: int, waiting: int) -> None:
    limits = settings(max_concurrency=started, max_queue=waiting + 1)
    async with Runtime(tools=[held], store=url, durability=durability, settings=limits) as rt:
        await asyncio.gather(*(rt.submit("held", {"a": n}, thread=f"t{n % 50}") for n in range(started + waiting)))
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(leave(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
