"""What another process does, seen from a third: `postgres+nats` has messages over a NATS server. `python -m benchmarks.ours.reach work
URL DURABILITY` is a worker process: it prints "ready", opens when a line comes, and ends with its input."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks import timing
from benchmarks.ours.opening import place, settings
from clicket import Runtime, Settings, tool

_AT_ONCE = 10
_EVENTS = 400
_QUEUE = 2_000
_LOCKS = 5


@tool(timeout=600)
async def ticks(count: int) -> AsyncIterator[str]:
    """Emit every 5 ms."""
    for number in range(count):
        await asyncio.sleep(0.005)
        yield f"{number};"


@tool(timeout=600)
async def short() -> list[float]:
    """Take 10 ms. Return the process id, and the start on the machine's clock, which all processes share."""
    started = monotonic()
    await asyncio.sleep(0.01)
    return [os.getpid(), started]


@tool(isolation="process", timeout=600, max_retries=0)
def sleep(path: str) -> None:
    """Write the id of this process, and sleep."""
    Path(path).write_text(f"{os.getpid()}\n")
    time.sleep(600)


TOOLS = (ticks, short, sleep)


def limits() -> Settings:
    return settings(max_concurrency=_AT_ONCE).replace(notices=os.environ.get("BENCH_NOTICES"))


async def work(url: str, durability: str) -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    async with Runtime(tools=TOOLS, store=url, durability=durability, settings=limits()):
        await asyncio.to_thread(sys.stdin.read)


async def event_delays(submitter: Runtime, third: Runtime) -> dict[str, float]:
    """Milliseconds from an event's own time to its arrival, while its call runs."""
    count = _EVENTS // 10 if timing.quick() else _EVENTS
    handle = await submitter.submit("ticks", {"count": count})
    delays = [
        (time.time() - event.at) * 1e3
        async for event in (await third.handle(handle.id)).events()
        if event.type == "output"
    ]
    assert (await handle.result()).success
    return {"event_ms": statistics.median(delays), "event_p99_ms": statistics.quantiles(delays, n=100)[-1]}


async def cancel_delay(submitter: Runtime, third: Runtime, folder: Path) -> float:
    """The longest of some, in milliseconds."""
    taken = []
    for number in range(2 if timing.quick() else 5):
        path = folder / f"pid{number}"
        handle = await submitter.submit("sleep", {"path": str(path)})
        await _until(lambda path=path: path.exists() and path.read_text().endswith("\n"))  # type: ignore[misc]
        process = Path("/proc", path.read_text().strip())
        start = monotonic()
        await third.cancel(handle.id)
        await _until(lambda process=process: not _runs(process))  # type: ignore[misc]
        taken.append((monotonic() - start) * 1e3)
        await handle.result()
    return max(taken)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # another process makes it true
        await asyncio.sleep(0.001)


def _runs(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@asynccontextmanager
async def worker(url: str, durability: str) -> AsyncIterator[subprocess.Popen[str]]:
    """A worker process that waits for `go`."""
    with timing.worker("benchmarks.ours.reach", "work", url, durability) as process:
        await asyncio.to_thread(timing.await_ready, process)
        yield process
        await asyncio.to_thread(process.communicate, timeout=60)


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


async def join_delay(submitter: Runtime, url: str, durability: str) -> float:
    """Milliseconds until a worker that is opened starts its first body, while a long queue waits for a full worker."""
    async with worker(url, durability) as process:
        calls = [submitter.submit("short", thread=f"t{n % 50}") for n in range(_QUEUE)]
        handles = await asyncio.gather(*calls)
        asked = monotonic()
        go(process)
        results = await asyncio.gather(*(handle.result() for handle in handles))
    starts = [result.output[1] for result in results if result.output[0] == process.pid]
    assert starts, "the queue was empty before the worker was open"
    return (min(starts) - asked) * 1e3


async def lock_delay(submitter: Runtime, url: str, durability: str) -> float:
    """The longest of some, in milliseconds."""
    import psycopg

    address, _, schema = url.partition("?schema=")
    taken = []
    for _ in range(_LOCKS):
        handle = await submitter.submit("short")
        with psycopg.connect(address, options=f"-c search_path={schema}") as other:
            other.execute("SELECT FROM calls WHERE ended_at IS NULL FOR UPDATE")
            async with Runtime(tools=TOOLS, store=url, durability=durability, settings=limits()):
                await asyncio.sleep(0.3)  # its claims find the row locked
                other.rollback()
                freed = monotonic()
                taken.append(((await handle.result()).output[1] - freed) * 1e3)
    return max(taken)


async def main() -> None:
    arguments = timing.budget()
    variant, _, bus = arguments.variant.partition("+")
    if bus:
        os.environ["BENCH_NOTICES"] = timing.server(f"BENCH_{bus.upper()}")
    figures: dict[str, Any] = {}
    with timing.scratch() as folder:
        url, durability = place(variant, folder)
        given: dict[str, Any] = {"store": url, "durability": durability, "settings": limits()}
        async with Runtime(tools=TOOLS, engine="workers", **given) as submitter:
            if variant == "postgres":
                figures["locked_ms"] = await lock_delay(submitter, url, durability)
            async with worker(url, durability) as process, Runtime(**given) as third:
                go(process)
                figures |= await event_delays(submitter, third)
                figures["cancel_ms"] = await cancel_delay(submitter, third, folder)
                figures["join_ms"] = await join_delay(submitter, url, durability)
    timing.report(figures, timing.versions("clicket"))


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[2:]) if sys.argv[1:2] == ["work"] else main())
