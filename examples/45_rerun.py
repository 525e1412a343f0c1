"""Would another model have done better? The turn runs again, and no effect of it is repeated."""

from __future__ import annotations

import asyncio

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel

sent: list[str] = []


@tool
async def look_up(name: str) -> str:
    """Find an address."""
    return f"{name}@example.org"


@tool
async def send_mail(to: str) -> str:
    """Send a mail."""
    sent.append(to)
    return "sent"


FIRST = [[("look_up", {"name": "ann"})], [("send_mail", {"to": "ann@example.org"})], "I have written to Ann."]
OTHER = [
    [("look_up", {"name": "ann"}), ("send_mail", {"to": "ann@example.org"})],
    [("send_mail", {"to": "bob@example.org"})],
    "Ann has a mail, Bob has none.",
]


async def main() -> None:
    async with Runtime([look_up, send_mail], store="memory://") as rt:
        agent = ReActAgent(rt, ScriptedModel(FIRST))
        await agent.run("Write to Ann.", thread="mail")

        again = await agent.rerun("mail", turn=1, model=ScriptedModel(OTHER, name="other"))
        for message in again.new_messages:
            if message.role == "tool":
                print("  read:", message.content[:40])
        print(f"{again.text} ({again.thread})")
        assert sent == ["ann@example.org"], "the mail on record was not sent again, and the new one was refused"

        live = await agent.rerun("mail", turn=1, model=ScriptedModel(OTHER, name="other"), effects="live")
        assert sent == ["ann@example.org", "bob@example.org"], "calls that are not on record ran"
        print(live.steps, "steps, and the old thread has", (await agent.look("mail")).turns, "turn")


if __name__ == "__main__":
    asyncio.run(main())
