"""An agent: a model calls tools until it has an answer. The model is a script, so no key is needed.

With a key: `from clicket.models import model_of; model = model_of("openai:NAME")` (or "anthropic:NAME").
"""

from __future__ import annotations

import asyncio

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel


@tool(read_only=True)
async def weather(city: str) -> dict:
    """Current weather of a city."""
    return {"city": city, "temperature": {"Lisbon": 21, "Oslo": 4}[city]}


async def main() -> None:
    model = ScriptedModel(
        [
            [("weather", {"city": "Lisbon"}), ("weather", {"city": "Atlantis"})],  # one step with two parallel calls
            [("wether", {"city": "Oslo"})],  # a misspelled name
            [("weather", {"city": "Oslo"})],
            "It is 17 degrees warmer in Lisbon than in Oslo.",
            "You are welcome.",
        ]
    )
    async with Runtime(tools=[weather], store="memory://") as rt:
        agent = ReActAgent(rt, model, system="You know the weather.", max_steps=10, max_cost=0.50)
        result = await agent.run("Where is it warmer, and by how much?", thread="ann")
        print(result.text)
        print(f"{result.stopped}: {result.steps} steps, {result.calls} calls, {result.usage.total} tokens")

        # The model reads each error with advice; every call has exactly one result.
        for message in result.messages:
            for use in message.uses:
                print("  asked: ", use.name, use.arguments)
            if message.role == "tool":
                print("  failed:" if message.failed else "  got:   ", message.content[:90])

        # The store keeps the thread; each run counts its own steps.
        again = await agent.run("Thank you!", thread="ann")
        print(again.text, again.steps, len(again.messages))
        assert agent.state("ann") == "finished"

        # The tool calls are ordinary calls.
        calls = await rt.history(thread="ann")
        print([f"{record.tool} {record.state}" for record in calls.items])


if __name__ == "__main__":
    asyncio.run(main())
