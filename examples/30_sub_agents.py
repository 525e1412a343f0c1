"""An agent as a tool of another. Its turn is recorded in its own thread and has its own limits."""

from __future__ import annotations

import asyncio

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel


@tool(read_only=True)
async def look_up(word: str) -> str:
    """Look up the meaning of a word."""
    return {"clicket": "a latch that clicks into place", "ratchet": "a wheel that turns one way"}[word]


async def main() -> None:
    async with Runtime(tools=[look_up], store="memory://") as rt:
        reading = ScriptedModel([[("look_up", {"word": "clicket"})], "It is a latch that clicks into place."])
        reader = ReActAgent(rt, reading, name="reader", tools=["look_up"], max_steps=5)
        rt.add(reader.as_tool("research", description="Finds out what words mean."))

        writing = ScriptedModel(
            [[("research", {"task": "What is a clicket?"})], "A clicket: once closed, it stays closed."]
        )
        writer = ReActAgent(rt, writing, name="writer", tools=["research"])
        async for event in writer.stream("Write a line about clickets.", thread="ann"):
            if event.type == "tool_progress" and event.data["kind"] == "progress":
                print("  ", event.data["status"])
            elif event.type == "tool_result":
                print(f"   {event.data['tool']}: {event.data['content']}")
            elif event.type == "final":
                print(event.data["text"])

        # The store has both the call of the sub-agent and, in the sub-agent's thread, the call that it made.
        for record in (await rt.history(tool="look_up")).items:
            print(record.tool, record.state, "in thread", record.thread)


if __name__ == "__main__":
    asyncio.run(main())
