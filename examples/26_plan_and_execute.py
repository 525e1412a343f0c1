"""Plan and execute: independent steps run in parallel, each in its own branch, and are merged in order."""

from __future__ import annotations

import asyncio

from clicket import Runtime, tool
from clicket.agents import PlanExecuteAgent
from clicket.model.chat import ChatRequest
from clicket.testing import ScriptedModel

SIGNS = {"not_started": " ", "in_progress": ">", "completed": "x", "blocked": "!"}


@tool(read_only=True)
async def price(item: str) -> int:
    """The price of an item."""
    return {"bread": 3, "cheese": 9}[item]


def executor(request: ChatRequest) -> object:
    """An executor of one step: it calls `price`, then reports the result. A real model gets the same request."""
    last = request.messages[-1]
    if last.role == "tool":
        return f"It costs {last.content}." if not last.failed else "The price is unknown."
    return [("price", {"item": "bread" if last.content.endswith("bread") else "cheese"})]


async def main() -> None:
    steps = [
        {"text": "Find the price of bread", "depends_on": []},
        {"text": "Find the price of cheese", "depends_on": []},
    ]
    planner = ScriptedModel(
        [
            [("plan", {"command": "create", "title": "Breakfast", "steps": steps})],
            [("plan", {"command": "finish", "summary": "Bread and cheese cost 12 together."})],
        ]
    )
    async with Runtime(tools=[price], store="memory://") as rt:
        agent = PlanExecuteAgent(rt, planner, executor=ScriptedModel([executor] * 4), max_steps=20)
        async for event in agent.stream("What does breakfast cost?", thread="ann"):
            if event.type == "plan":
                print("  ".join(f"[{SIGNS[step['status']]}] {step['text']}" for step in event.data["steps"]))
            elif event.type == "tool_result" and event.data["tool"] != "plan":
                print(f"   {event.data['tool']} -> {event.data['content']}")
            elif event.type == "final":
                print(event.data["text"])
        view = await agent.look("ann")
        assert view.plan is not None
        assert [step["status"] for step in view.plan["steps"]] == ["completed", "completed"]
        assert "It costs 9." in [step["notes"] for step in view.plan["steps"]]


if __name__ == "__main__":
    asyncio.run(main())
