"""Thirty tasks, each done by tool calls and by a program: the same results, and fewer requests to the model."""

from __future__ import annotations

import ast
from typing import Any

from tests.scenarios.code_mode_tasks import SHOP, TASKS, Task
from tests.scenarios.interpreter_kit import NAME, interpreter
from tests.scenarios.kit import make

from clicket import Runtime
from clicket.agents import ReActAgent
from clicket.model import result_of
from clicket.testing import ScriptedModel


async def by_calls(rt: Runtime, task: Task) -> tuple[Any, int]:
    """What a model concludes from the outputs of its calls, and how often it was asked."""
    model = ScriptedModel([*task.steps, "done"])
    await ReActAgent(rt, model, tools=[tool.name for tool in SHOP]).run("do it", thread=task.name)
    page = await rt.history(thread=task.name, limit=1_000)
    results = [(record.tool, record.arguments, result_of(record)) for record in page.items]

    def got(tool: str, **arguments: Any) -> Any:
        for name, given, result in results:
            if name == tool and (
                given == arguments or (given is None and not result.success)
            ):  # refused ones are not kept
                if not result.success:
                    raise KeyError(result.error.code if result.error else result.state)
                return result.output
        raise AssertionError(f"{task.name}: no call of {tool} with {arguments}")

    return task.combine(got), len(model.requests)


async def by_program(rt: Runtime, task: Task) -> tuple[Any, int]:
    model = ScriptedModel([[(NAME, {"task": task.program})], "done"])
    await ReActAgent(rt, model, tools=[NAME]).run("do it", thread="programs")
    page = await rt.history(thread="programs", tool=NAME, limit=1)
    output = result_of(page.items[0]).output
    assert output["status"] == "ok", (task.name, output)
    return ast.literal_eval(output["value"]), len(model.requests)


async def test_thirty_tasks_by_calls_and_by_programs() -> None:
    assert len(TASKS) == 30
    wrong, asked, asked_with_programs = [], 0, 0
    async with make([*SHOP, interpreter(tools=[tool.name for tool in SHOP])]) as rt:
        for task in TASKS:
            expected, requests = await by_calls(rt, task)
            found, fewer = await by_program(rt, task)
            asked, asked_with_programs = asked + requests, asked_with_programs + fewer
            if found != expected:
                wrong.append((task.name, expected, found))
        page = await rt.history(thread="programs", limit=1_000)
        uses = [record for record in page.items if record.tool != NAME]
        programs = {record.id for record in page.items if record.tool == NAME}
    assert not wrong
    assert (asked, asked_with_programs) == (82, 60), "each program needs one request, and one for the answer"
    assert uses
    assert all(record.metadata["parent"] in programs for record in uses), "each use is a call on record"
