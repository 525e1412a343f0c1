"""How an engine that runs programs measures itself. Standard library only: imported into every peer's environment.

An engine opens sessions, runs code in them and closes them; the measurements and their order are the same for all.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from benchmarks import timing

__all__ = ["Engine", "at_rest", "blocks", "first_results", "interrupts", "ms", "pss", "rss", "side_by_side", "sizes"]

_SETTLED = 0.5


class Engine(Protocol):
    async def open(self) -> Any:
        """A fresh session, ready to run."""

    async def run(self, session: Any, code: str) -> str:
        """The output of the code, once it has ended."""

    async def close(self, session: Any) -> None:
        """End it, with all of its processes."""


def sizes() -> tuple[int, int, int]:
    """Starts, interrupts, and sessions side by side of one round."""
    return (3, 2, 5) if timing.quick() else (15, 10, 50)


def ms(seconds: float) -> float:
    return seconds * 1_000


async def first_results(engine: Engine, times: int) -> float:
    """From nothing to the first result, in milliseconds: the median. A first run is not counted, so imports do not count."""
    samples = []
    for _ in range(times + 1):
        start = perf_counter()
        session = await engine.open()
        output = await engine.run(session, "print(6 * 7)")
        samples.append(perf_counter() - start)
        assert output.strip() == "42", output
        await engine.close(session)
    return ms(statistics.median(samples[1:]))


async def blocks(engine: Engine, session: Any, seconds: float) -> dict[str, float]:
    """One small block after the other: the median time of one, and how many per second. Each is verified to have run."""
    ran = 0

    async def block() -> None:
        nonlocal ran
        await engine.run(session, "count = count + 1")
        ran += 1

    await engine.run(session, "count = 0")
    figures = {
        "block_us": await timing.p50_async(block, seconds=seconds),
        "blocks_per_second": await timing.per_second(block, seconds=seconds, at_once=1),
    }
    output = await engine.run(session, "print(count)")
    assert output.strip() == str(ran), f"{ran} blocks were sent, {output.strip()} ran"
    return figures


async def at_rest(engine: Engine) -> float:
    """Memory of an idle session after one block: PSS of all its processes, in bytes."""
    before = set(_descendants(os.getpid()))
    session = await engine.open()
    await engine.run(session, "x = 1")
    await asyncio.sleep(_SETTLED)  # work after the first block does not count
    size = sum(pss(pid) for pid in set(_descendants(os.getpid())) - before)
    await engine.close(session)
    return size


async def interrupts(
    begin: Callable[[], Awaitable[object]], stop: Callable[[], Awaitable[object]], times: int
) -> float:
    """`begin` returns once the endless loop runs, `stop` once it has verifiably ended: the median of `stop`."""
    samples = []
    for _ in range(times):
        await begin()
        await asyncio.sleep(0.05)  # well inside the loop
        start = perf_counter()
        await stop()
        samples.append(perf_counter() - start)
    return ms(statistics.median(samples))


async def side_by_side(engine: Engine, count: int) -> dict[str, float]:
    """So many sessions opened at once; each runs one block, then each another one, all of them alive."""
    start = perf_counter()
    sessions = await asyncio.gather(*(engine.open() for _ in range(count)))
    await asyncio.gather(*(engine.run(session, f"mine = {i}") for i, session in enumerate(sessions)))
    took = perf_counter() - start
    outputs = await asyncio.gather(*(engine.run(session, "print(mine)") for session in sessions))
    right = sum(text.strip() == str(i) for i, text in enumerate(outputs))
    await asyncio.gather(*(engine.close(session) for session in sessions))
    return {"many_s": took, "many_right": right / count}


def pss(pid: int) -> int:
    """A process's share of memory in bytes: its private memory, and its part of shared memory."""
    return _kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")


def rss() -> int:
    """The resident memory of this process, in bytes."""
    return _kib(Path("/proc/self/status"), "VmRSS:")


def _kib(path: Path, head: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(head))


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(int(after_name.split()[1]), []).append(int(entry.name))
    found: list[int] = []
    todo = [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found
