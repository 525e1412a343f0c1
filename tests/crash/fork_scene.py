"""A program that forks a thread, continues a fork and runs a turn again. It is killed and started again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["Scene", "agent_at", "begin", "play", "runtime_at"]


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death = Death()


class Model:
    """Pays each bill of the last message, one after the other, then answers. In a fork it pays one bill more."""

    name = "payer"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        messages = [message for message in request.messages if not message.content.startswith("[This conversation")]
        append_line(self._folder / "asked", [message.content for message in messages])
        begins = max(place for place, message in enumerate(messages) if message.role == "user")
        bills = messages[begins].content.split()
        if len(messages) < len(request.messages):
            bills.append("extra")
        paid = sum(message.role == "tool" for message in messages[begins:])
        if paid < len(bills):
            arguments = msgspec.json.encode({"bill": bills[paid]}).decode()
            return ChatReply(uses=(ToolUse(id=f"use_{len(messages)}", name="pay", arguments=arguments),))
        return ChatReply(text=f"paid {' '.join(bills)}")


def runtime_at(place: Place) -> Runtime:
    folder = Path(place.folder)

    @tool
    async def pay(bill: str, ctx: ToolContext) -> str:
        append_line(folder / "effects", [ctx.thread, bill])
        return f"paid {bill}"

    return Runtime([pay], settings=place.settings())


def agent_at(rt: Runtime, place: Place) -> ReActAgent:
    return ReActAgent(rt, Model(Path(place.folder)))


async def begin(place: Place) -> None:
    """The thread that is forked."""
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        for number, text in enumerate(("rent gas", "phone"), 1):
            await agent.run(text, thread="t", turn=number)


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    async with runtime_at(scene.place) as rt:
        agent = agent_at(rt, scene.place)
        await rt.recover()
        await agent.fork("t", after=1, to="whole")
        await agent.fork("t", after=0, step=1, to="cut")
        await agent.resume("cut")
        await agent.rerun("t", turn=1, to="again")
