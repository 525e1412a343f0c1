"""Two agents that hand a turn to each other, and pay, in a process that is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom, note
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, tool
from clicket.agents import Handoff, ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["HANDED", "MESSAGES", "Scene", "agent_at", "play", "runtime_at"]

MESSAGES = ["refund me", "thanks"]
"""One turn each."""
HANDED = [[("triage", "billing"), ("billing", "desk")], [("triage", "desk")]]
"""Who hands to whom in each turn; the second one begins with the agent to which the first was handed."""
_ASKS: dict[str, list[list[tuple[str, dict[str, Any]]]]] = {
    "triage": [[("pay", {"bill": "fee"}), ("hand_to_billing", {"reason": "money"})]],
    "billing": [[("pay", {"bill": "refund"})], [("hand_to_desk", {"reason": "done"})]],
    "desk": [[]],
}
"""The tool calls of each of an agent's replies in a turn."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death = Death()


class Model:
    """Answers by the agent, and by how many replies that agent gave since the caller's message or the handoff."""

    def __init__(self, folder: Path, agent: str) -> None:
        self.name = agent
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        append_line(self._folder / "asked", [self.name, [message.content for message in request.messages]])
        messages = request.messages
        since = max(place for place, message in enumerate(messages) if message.role == "user")
        step = sum(message.role == "assistant" for message in messages[since:])
        uses = _ASKS[self.name][step]
        if not uses:
            return ChatReply(text=f"{self.name} at your service: {messages[since].content}")
        return ChatReply(
            uses=tuple(
                ToolUse(id=f"{self.name}_{len(messages)}_{n}", name=name, arguments=msgspec.json.encode(given).decode())
                for n, (name, given) in enumerate(uses)
            )
        )


def runtime_at(place: Place) -> Runtime:
    folder = Path(place.folder)

    @tool
    async def pay(bill: str, ctx: ToolContext) -> str:
        note(ctx, "begin", folder)
        return f"paid {bill}"

    return Runtime([pay], settings=place.settings())


def agent_at(rt: Runtime, place: Place) -> ReActAgent:
    folder = Path(place.folder)
    desk = ReActAgent(rt, Model(folder, "desk"), name="desk", system="You end.", tools=[])
    billing = ReActAgent(rt, Model(folder, "billing"), name="billing", handoffs=[Handoff(desk, history="last")])
    return ReActAgent(rt, Model(folder, "triage"), name="triage", tools=["pay"], handoffs=[billing])


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    async with runtime_at(scene.place) as rt:
        agent = agent_at(rt, scene.place)
        for message in MESSAGES:
            await agent.run(message, thread="t", id=message)
