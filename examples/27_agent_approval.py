"""An agent that needs approval: the turn waits until a person decides, in this process or days later in another."""

from __future__ import annotations

import asyncio
import tempfile

from clicket import Policy, Rule, Runtime, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel

POLICY = Policy(rules=[Rule(verdict="ask", tools=["refund"], reason="refunds need approval")])
SCRIPT = [
    [("refund", {"order": 7, "cents": 2500})],
    "Order 7 is refunded.",
    [("refund", {"order": 8, "cents": 1})],
    "I may not.",
]


@tool
async def refund(order: int, cents: int) -> str:
    """Pay a customer back."""
    return f"{cents} cents for order {order}"


def agent_on(rt: Runtime) -> ReActAgent:
    return ReActAgent(rt, ScriptedModel(SCRIPT, position="transcript"))


async def main(store: str) -> None:
    # The first process requests approval and closes before the decision.
    async with Runtime(tools=[refund], store=store, policy=POLICY) as rt:
        agent = agent_on(rt)
        async for event in agent.stream("Please refund order 7.", thread="ann"):
            if event.type == "tool_progress" and event.data["kind"] == "approval_requested":
                print("waits:", (await agent.look("ann")).waiting_for)
                break

    # A second process lists the waiting calls and approves one, as `clicket approve` does.
    async with Runtime(store=store) as approver:
        (record,) = (await approver.history(waiting_for="approval")).items
        print(record.tool, record.arguments, "-", record.approval["why"])
        await approver.approve(record.id, thread=record.thread, by="boss")

    # A third process resumes the turn.
    async with Runtime(tools=[refund], store=store, policy=POLICY) as rt:
        agent = agent_on(rt)
        result = await agent.resume("ann")
        print(result.text, f"({result.steps} steps)")

        # After a denial, the model reads the reason and continues.
        async for event in agent.stream("And order 8.", thread="ann"):
            if event.type == "tool_progress" and event.data["kind"] == "approval_requested":
                await rt.deny(event.data["call_id"], thread="ann", by="boss", reason="not this one")
            elif event.type == "tool_result":
                print(event.data["content"])
            elif event.type == "final":
                print(event.data["text"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/calls.db"))
