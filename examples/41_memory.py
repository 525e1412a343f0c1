"""An agent remembers facts about its caller from one thread to the next; a person edits them, and the caller is forgotten."""

from __future__ import annotations

import asyncio

from clicket import Runtime
from clicket.agents import Memory, ReActAgent, Todo, todo_of
from clicket.testing import ScriptedModel

ANSWERS = [
    [
        ("remember", {"fact": "The user is vegetarian."}),
        ("write_todo", {"items": [{"text": "find a recipe", "status": "doing"}, {"text": "write a list"}]}),
    ],
    "I will remember it, and look for a recipe.",
    "A lentil soup.",
]


async def main() -> None:
    model = ScriptedModel(ANSWERS)
    async with Runtime(store="memory://") as rt:
        agent = ReActAgent(rt.acting_for("ann"), model, middleware=[Memory(), Todo()])
        r = await agent.run("I am vegetarian. Plan a dinner.", thread="monday")
        print("its steps:", [(item.text, item.status) for item in todo_of(r.messages)])

        (fact,) = await rt.memory.list(caller="ann")
        print("remembered:", fact.text)
        await rt.memory.edit(fact.id, "The user is vegan.", caller="ann", by="ann")
        await agent.run("What shall I cook?", thread="tuesday")
        assert "The user is vegan." in model.requests[-1].messages[0].content

        report = await rt.forget(caller="ann")
        print(f"forgotten: {report.threads} threads, {report.calls} calls, {report.facts} facts")
        assert await rt.memory.list(caller="ann") == []


if __name__ == "__main__":
    asyncio.run(main())
