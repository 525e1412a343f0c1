"""Turns of an agent, the same for every contender: the model's calls, the counters, the timing. Standard library only.

The model answers at once and reads only the last message: its number decides the next step. So no contender pays for
reading the conversation, and a thread among many needs no script of its own.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter, perf_counter_ns

from benchmarks import timing

__all__ = ["LONG", "ONE", "PLANS", "SHORT", "TOOL", "WIDE", "Counted", "Plan", "Run", "measured"]

TOOL = "noop"
_THREADS = 1_000
_TURNS_BEFORE = 200
_TICK = 0.002


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` answers of the model: all but the last make `width` tool calls."""

    name: str
    steps: int
    width: int = 1

    def wanted(self, last: int | None) -> range:
        """The arguments of the next tool calls, after a result of `last` (None: after the user's message)."""
        done = 0 if last is None else last // self.width + 1
        return range(done * self.width, (done + 1) * self.width) if done < self.steps - 1 else range(0)


ONE = Plan("one", 20)
WIDE = Plan("wide", 20, 5)
SHORT = Plan("short", 5)
LONG = Plan("long", 1)
PLANS = (ONE, WIDE, SHORT, LONG)


@dataclass(slots=True)
class Counted:
    """What the contender really did, so that all are compared over the same work."""

    asked: int = 0
    ran: int = 0


Run = Callable[[Plan, str], Awaitable[str]]
"""Runs one turn in a thread; returns the model's last text."""


async def measured(run: Run, counted: Counted, seconds: float) -> dict[str, float]:
    names = count()

    async def turn(plan: Plan, thread: str | None = None) -> None:
        asked, ran = counted.asked, counted.ran
        text = await run(plan, thread or f"fresh-{next(names)}")
        made = counted.asked - asked, counted.ran - ran
        expected = plan.steps, (plan.steps - 1) * plan.width
        if made != expected or text != "done":
            raise SystemExit(
                f"a turn asked the model and ran tools {made} times instead of {expected}, and said {text!r}"
            )

    figures: dict[str, float] = {}
    for plan, name in ((ONE, "step_us"), (WIDE, "wide_us")):
        figures[name] = await _per_step(lambda plan=plan: turn(plan), plan, seconds)
    for _ in range(20 if timing.quick() else _TURNS_BEFORE):
        await turn(LONG, "long")
    figures["long_us"] = await _per_step(lambda: turn(ONE, "long"), ONE, 0, least=5)
    return {**figures, **await _side_by_side(run, counted), "asked": ONE.steps, "ran": ONE.steps - 1}


async def _per_step(turn: Callable[[], Awaitable[None]], plan: Plan, seconds: float, least: int = 3) -> float:
    """Microseconds of one step: the median turn, divided by its steps."""
    if seconds:
        await turn()
    samples: list[int] = []
    end = perf_counter() + seconds
    while len(samples) < least or perf_counter() < end:
        start = perf_counter_ns()
        await turn()
        samples.append(perf_counter_ns() - start)
    return statistics.median(samples) / plan.steps / 1_000


async def _side_by_side(run: Run, counted: Counted) -> dict[str, float]:
    """A thousand concurrent threads in this process, a short turn in each."""
    threads = 50 if timing.quick() else _THREADS
    asked, ran, before = counted.asked, counted.ran, _fresh_peak()
    late = 0.0

    async def watch() -> None:
        nonlocal late
        while True:
            start = perf_counter()
            await asyncio.sleep(_TICK)
            late = max(late, perf_counter() - start - _TICK)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    start = perf_counter()
    texts = await asyncio.gather(*(run(SHORT, f"side-{number}") for number in range(threads)))
    took = perf_counter() - start
    await asyncio.sleep(0)  # a monitor that could not run until now records its stall
    watching.cancel()
    made = counted.asked - asked, counted.ran - ran
    expected = threads * SHORT.steps, threads * (SHORT.steps - 1)
    if made != expected or set(texts) != {"done"}:
        raise SystemExit(f"{threads} threads asked the model and ran tools {made} times instead of {expected}")
    return {
        "threads_s": took,
        "threads_step_us": took / threads / SHORT.steps * 1_000_000,
        "threads_bytes": _peak() - before,
        "threads_stall_ms": late * 1_000,
    }


def _fresh_peak() -> int:
    """The resident memory; the peak is counted from here on, where the system supports it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
