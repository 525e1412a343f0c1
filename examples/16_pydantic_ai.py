"""A pydantic-ai agent with clicket tools: the model reads failures, the run continues, and every call is recorded.

Needs `pip install 'clicket[pydantic-ai]'`.
"""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clicket import Runtime, tool
from clicket.adapters.pydantic_ai import ClicketToolset


@tool
async def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


SCRIPT = [
    [ToolCallPart("divide", {"a": 1, "b": 0}), ToolCallPart("divide", '{"a": 1, ')],
    [ToolCallPart("divide", {"a": 1, "b": 4})],
    [TextPart("A quarter.")],
]


async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A script instead of a model, so no key is needed."""
    return ModelResponse(parts=SCRIPT.pop(0))


async def main() -> None:
    async with Runtime(tools=[divide], store="memory://") as rt:
        agent = Agent(FunctionModel(model), toolsets=[ClicketToolset(rt, "t1")])
        result = await agent.run("How much is one divided by four?")
        for message in result.all_messages():
            for part in message.parts:
                if part.part_kind == "tool-return":
                    print(f"{part.tool_name} {part.outcome}: {part.content}")
        print("answer:", result.output)
        print("recorded:", [str(record.state) for record in (await rt.history(thread="t1")).items])


if __name__ == "__main__":
    asyncio.run(main())
