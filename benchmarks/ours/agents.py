"""A ReActAgent on each store, with a model that answers at once and an async no-op tool."""

from __future__ import annotations

import asyncio
import json

from benchmarks import timing
from benchmarks.ours.opening import runtime
from benchmarks.turns import PLANS, TOOL, Counted, Plan, measured
from clicket import tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage

counted = Counted()
_USAGE = Usage(input_tokens=1, output_tokens=1)


@tool(name=TOOL)
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    counted.ran += 1
    return {"a": a}


class Instant:
    """Makes the tool calls of the plan."""

    name = "instant"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def chat(self, request: ChatRequest) -> ChatReply:
        counted.asked += 1
        last = request.messages[-1]
        wanted = self._plan.wanted(json.loads(last.content)["a"] if last.role == "tool" else None)
        uses = tuple(ToolUse(id=f"call_{a}", name=TOOL, arguments=f'{{"a": {a}}}') for a in wanted)
        return ChatReply(text="" if uses else "done", uses=uses, usage=_USAGE)


async def main() -> None:
    arguments = timing.budget()
    with timing.scratch() as folder:
        async with runtime(arguments.variant, folder, [noop]) as rt:
            agents = {plan: ReActAgent(rt, Instant(plan), name="bench") for plan in PLANS}

            async def run(plan: Plan, thread: str) -> str:
                return (await agents[plan].run("go", thread=thread)).text

            figures = await measured(run, counted, arguments.seconds)
    timing.report(figures, timing.versions("clicket", "apsw", "msgspec"))


if __name__ == "__main__":
    asyncio.run(main())
