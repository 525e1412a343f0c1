"""One use of a tool in a program, several at once, and the same task by tool calls and by a program."""

from __future__ import annotations

import ast
import asyncio
from time import perf_counter
from typing import Any

from benchmarks import timing
from benchmarks.ours.opening import runtime
from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.interpreter import code_interpreter
from clicket.testing import ScriptedModel

_NAME = "code_interpreter"
_LOOK_UPS = 20
_ONE = """
from statistics import median
from time import perf_counter
took = []
until = perf_counter() + {seconds}
while perf_counter() < until:
    start = perf_counter()
    tools.noop(a=1)
    took.append(perf_counter() - start)
median(took) * 1_000_000
"""
_MANY = """
import asyncio
from time import perf_counter
start, made = perf_counter(), 0
while perf_counter() - start < {seconds}:
    await asyncio.gather(*(tools.noop(a=n) for n in range(50)))
    made += 50
made / (perf_counter() - start)
"""
_TASK = f"total = 0\nfor n in range({_LOOK_UPS}):\n    total += tools.noop(a=n)['a']\nprint(total)"


@tool
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


async def value(rt: Runtime, program: str) -> float:
    result = await rt.call(_NAME, {"task": program}, thread="programs")
    assert result.success, result.error
    assert result.output["status"] == "ok", result.output
    return float(ast.literal_eval(result.output["value"]))


async def turn(rt: Runtime, number: int, tools: list[str], answers: list[Any]) -> tuple[int, float]:
    """How often the model was asked, and the milliseconds of the turn without the model, which answers at once."""
    model = ScriptedModel([*answers, "done"])
    agent = ReActAgent(rt, model, tools=tools, max_steps=_LOOK_UPS + 1, name=f"agent{number}")
    start = perf_counter()
    await agent.run("add them", thread="programs")
    return len(model.requests), (perf_counter() - start) * 1_000


async def main() -> None:
    arguments = timing.budget()
    interpreter = code_interpreter(tools=["noop"], max_uses=10_000_000, timeout=600, call_timeout=600, warm=False)
    with timing.scratch() as folder:
        async with runtime(arguments.variant, folder, [noop, interpreter]) as rt:

            async def call() -> Any:
                return await rt.call("noop", {"a": 1}, thread="t")

            await value(rt, _ONE.format(seconds=0.1))
            figures = {
                "call_us": await timing.p50_async(call, seconds=arguments.seconds),
                "use_us": await value(rt, _ONE.format(seconds=arguments.seconds)),
                "uses_per_second": await value(rt, _MANY.format(seconds=arguments.seconds)),
            }
            steps = [[("noop", {"a": n})] for n in range(_LOOK_UPS)]
            figures["requests_by_calls"], figures["turn_by_calls_ms"] = await turn(rt, 1, ["noop"], steps)
            figures["requests_by_program"], figures["turn_by_program_ms"] = await turn(
                rt, 2, [_NAME], [[(_NAME, {"task": _TASK})]]
            )
    timing.report(figures, timing.versions("clicket"))


asyncio.run(main())
