"""A worker process: `python -m benchmarks.ours.work URL DURABILITY AT_ONCE` prints "ready", runs submitted calls until
its input ends, and then prints how many bodies it ran."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

from benchmarks import timing
from benchmarks.ours.opening import settings
from clicket import Runtime, tool

__all__ = ["TOOLS", "Workers", "workers"]

SHORT = 0.01


class Bodies:
    """How many bodies this process has run."""

    run = 0


@tool
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    Bodies.run += 1
    return {"a": a}


@tool
async def short(a: int) -> dict[str, int]:
    """Return a small dict after 10 ms."""
    Bodies.run += 1
    await asyncio.sleep(SHORT)
    return {"a": a}


@tool
async def started() -> float:
    """Return the start time on the machine's clock, which all processes share."""
    Bodies.run += 1
    return monotonic()


TOOLS = (noop, short, started)


async def work(url: str, durability: str, at_once: int) -> None:
    limits = settings(max_concurrency=at_once).replace(notices=os.environ.get("BENCH_NOTICES"))
    async with Runtime(tools=TOOLS, store=url, durability=durability, settings=limits):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    print(Bodies.run, flush=True)


class Workers:
    """Running worker processes, and their output at the end."""

    def __init__(self) -> None:
        self.bodies = 0
        self.pids: list[int] = []


@contextmanager
def workers(number: int, url: str, durability: str, at_once: int) -> Iterator[Workers]:
    """So many worker processes, all ready."""
    told = Workers()
    with ExitStack() as stack:
        command = ("benchmarks.ours.work", url, durability, str(at_once))
        processes = [stack.enter_context(timing.worker(*command)) for _ in range(number)]
        for process in processes:
            timing.await_ready(process)
        told.pids = [process.pid for process in processes]
        yield told
        for process in processes:
            told.bodies += int(process.communicate(timeout=60)[0])


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))
