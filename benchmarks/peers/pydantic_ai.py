"""pydantic-ai: a tool run without an agent.

Variants: `toolset` validates and calls (no lifecycle at all), `manager` is the ToolManager through which an agent runs it.
"""

from __future__ import annotations

import asyncio

from pydantic_ai import RunContext
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RunUsage

from benchmarks import timing

toolset = FunctionToolset()


@toolset.tool_plain
async def noop(a: int) -> dict:
    """Return a small dict."""
    return {"a": a}


async def main() -> None:
    arguments = timing.budget()
    ctx = RunContext(deps=None, model=TestModel(), usage=RunUsage(), run_step=1)
    bound = (await toolset.get_tools(ctx))["noop"]
    manager = await ToolManager(toolset).for_run_step(ctx)

    async def validate_and_call() -> object:
        checked = bound.args_validator.validate_python({"a": 1})
        return await toolset.call_tool("noop", checked, ctx, bound)

    async def handle() -> object:
        return await manager.handle_call(ToolCallPart("noop", {"a": 1}, tool_call_id="1"))

    call = validate_and_call if arguments.variant == "toolset" else handle
    assert await call() == {"a": 1}
    figures = await timing.at_once(call, seconds=arguments.seconds, batch=10)
    timing.report(figures, timing.versions("pydantic-ai-slim"))


asyncio.run(main())
