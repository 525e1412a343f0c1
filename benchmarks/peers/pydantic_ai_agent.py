"""pydantic-ai: `Agent.run` in memory; the caller keeps the messages. The model reports its usage, so nothing is estimated."""

from __future__ import annotations

import asyncio
import json

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from benchmarks import timing
from benchmarks.turns import PLANS, TOOL, Counted, Plan, measured

counted = Counted()


async def noop(a: int) -> dict:
    """Return a small dict."""
    counted.ran += 1
    return {"a": a}


def instant(plan: Plan) -> FunctionModel:
    """Makes the tool calls of the plan."""

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        counted.asked += 1
        last = messages[-1].parts[-1]
        content = last.content if isinstance(last, ToolReturnPart) else None
        content = json.loads(content) if isinstance(content, str) else content
        wanted = plan.wanted(None if content is None else content["a"])
        calls = [ToolCallPart(TOOL, f'{{"a": {a}}}', tool_call_id=f"call_{a}") for a in wanted]
        return ModelResponse(parts=calls or [TextPart("done")], usage=RequestUsage(input_tokens=1, output_tokens=1))

    return FunctionModel(answer)


async def main() -> None:
    arguments = timing.budget()
    agents = {plan: Agent(instant(plan), tools=[noop]) for plan in PLANS}
    kept: dict[str, list[ModelMessage]] = {}

    async def run(plan: Plan, thread: str) -> str:
        result = await agents[plan].run("go", message_history=kept.get(thread))
        kept[thread] = result.all_messages()
        return result.output

    figures = await measured(run, counted, arguments.seconds)
    timing.report(figures, timing.versions("pydantic-ai-slim"))


asyncio.run(main())
