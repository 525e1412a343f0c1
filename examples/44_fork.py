"""A new thread from a turn, or from a step within one: try another way, and the old thread stays as it was."""

from __future__ import annotations

import asyncio

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel

booked: list[str] = []


@tool
async def book(what: str) -> str:
    """Book something. It cannot be taken back."""
    booked.append(what)
    return f"booked {what}"


ANSWERS = [
    [("book", {"what": "a flight"})],
    [("book", {"what": "a hotel"})],
    "A flight and a hotel are booked.",
    [("book", {"what": "a tent"})],
    "A flight and a tent are booked.",
    "You are welcome.",
]


async def main() -> None:
    async with Runtime([book], store="memory://") as rt:
        agent = ReActAgent(rt, ScriptedModel(ANSWERS))
        await agent.run("Plan a trip.", thread="trip")

        # From a step: the flight is booked, and what comes next is decided anew.
        fork = await agent.fork("trip", after=0, step=1, to="camping")
        print("it waits for:", fork.waiting_for)
        r = await agent.resume("camping")
        assert r is not None
        print(r.text)
        assert booked == ["a flight", "a hotel", "a tent"], "the flight was booked once"

        # From a turn.
        await agent.fork("trip", after=1, to="polite")
        await agent.run("Thank you!", thread="polite")
        for each in await agent.forks("trip"):
            print(each.thread, "after turn", each.origin.after, "with", each.turns, "turns")
        assert (await agent.look("trip")).turns == 1


if __name__ == "__main__":
    asyncio.run(main())
