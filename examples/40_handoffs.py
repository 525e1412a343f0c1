"""Two agents that hand a conversation to each other. It stays one thread, under the limits of the agent that began it."""

from __future__ import annotations

import asyncio

from clicket import Runtime, tool
from clicket.agents import Handoff, ReActAgent
from clicket.testing import ScriptedModel


@tool(idempotent=True)
async def refund(order: int) -> str:
    """Pay an order back."""
    return f"order {order} was paid back"


async def main() -> None:
    async with Runtime(tools=[refund], store="memory://") as rt:
        sorts = ScriptedModel(
            [[("hand_to_billing", {"reason": "wants order 7 paid back"})], "Yes: our shop opens at nine."]
        )
        pays = ScriptedModel(
            [
                [("refund", {"order": 7})],
                "Order 7 was paid back.",
                [("hand_to_triage", {"reason": "not about money"})],
            ]
        )
        ReActAgent(
            rt,
            pays,
            name="billing",
            system="You pay back.",
            tools=["refund"],
            handoffs=[Handoff("triage", description="For all that is not about money.")],
        )
        triage = ReActAgent(
            rt, sorts, name="triage", system="You answer simple questions.", tools=[], handoffs=["billing"]
        )

        for message in ("I want my money back for order 7.", "Thanks. Are you open tomorrow?"):
            print(">", message)
            async for event in triage.stream(message, thread="ann"):
                if event.type == "handoff":
                    why = f" ({event.data['reason']})" if event.data["reason"] else ""
                    print(f"   {event.data['from']} -> {event.data['to']}{why}")
                elif event.type == "tool_result" and event.data["tool"] == "refund":
                    print("  ", event.data["content"])
                elif event.type == "final":
                    print(event.data.get("agent", "triage"), "says:", event.data["text"])


if __name__ == "__main__":
    asyncio.run(main())
