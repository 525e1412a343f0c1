"""One plain call, step by step: a timer wraps each step's function, and its own cost is subtracted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benchmarks import timing
from benchmarks.ours.opening import runtime
from clicket import tool
from clicket.engine.lifecycle.running import Running
from clicket.engine.stages import Pipeline

STEPS: dict[str, tuple[type, str]] = {
    "admit_us": (Pipeline, "admit"),
    "intent_us": (Running, "start_attempt"),
    "body_us": (Pipeline, "perform"),
    "outcome_us": (Pipeline, "finish"),
}


@tool(name="noop")
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


class Clock:
    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STEPS, 0.0)

    def wrap(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        seconds = self.seconds

        def timed(*given: Any) -> Any:
            started = perf_counter()
            try:
                return function(*given)
            finally:
                seconds[step] += perf_counter() - started

        return timed


def cost_of_clock() -> float:
    """Seconds that the timer adds to a step."""
    clock = Clock()
    step = next(iter(STEPS))
    wrapped = clock.wrap(step, lambda: None)
    for _ in range(20_000):
        wrapped()
    return clock.seconds[step] / 20_000


async def main() -> None:
    arguments = timing.budget()
    with timing.scratch() as folder:
        async with runtime(arguments.variant, folder, [noop]) as rt:

            async def call() -> Any:
                return await rt.call("noop", {"a": 1}, thread="t")

            whole = await timing.p50_async(call, seconds=arguments.seconds)
            clock, unit = Clock(), cost_of_clock()
            for step, (kind, name) in STEPS.items():
                setattr(kind, name, clock.wrap(step, getattr(kind, name)))
        async with runtime(arguments.variant, folder, [noop]) as rt:
            calls, until = 0, perf_counter() + arguments.seconds
            while perf_counter() < until:
                await rt.call("noop", {"a": 1}, thread="t")
                calls += 1
    figures = {step: max(seconds / calls - unit, 0.0) * 1e6 for step, seconds in clock.seconds.items()}
    figures["whole_us"] = whole
    figures["rest_us"] = max(whole - sum(figures[step] for step in STEPS), 0.0)
    timing.report(figures, timing.versions("clicket", "apsw", "msgspec"))


asyncio.run(main())
