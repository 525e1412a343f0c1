"""A program that sends messages to an agent: to a quiet thread, to the running turn, to its queue. It is killed and started again."""

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

__all__ = ["SENT", "THREAD", "Scene", "agent_at", "play", "runtime_at"]

THREAD = "t"
SENT = [("pay rent", "next"), ("pay gas", "next"), ("and be quick", "now"), ("pay phone", "next")]
"""Each message, and when it is to be read."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death = Death()


class Model:
    """Pays what the last message asks for, then answers with all messages of the turn."""

    name = "payer"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        append_line(self._folder / "asked", [[m.role, m.content] for m in request.messages])
        messages = request.messages
        last = (
            max(place for place, message in enumerate(messages) if message.role == "assistant" and not message.uses)
            if any(message.role == "assistant" and not message.uses for message in messages)
            else -1
        )
        turn = messages[last + 1 :]
        if not any(message.role == "tool" for message in turn):
            bill = msgspec.json.encode({"bill": turn[0].content}).decode()
            return ChatReply(uses=(ToolUse(id=f"use_{len(messages)}", name="pay", arguments=bill),))
        return ChatReply(text=" + ".join(message.content for message in turn if message.role == "user"))


def runtime_at(place: Place) -> Runtime:
    folder = Path(place.folder)

    @tool
    async def pay(bill: str, ctx: ToolContext) -> str:
        append_line(folder / "effects", [ctx.call_id, bill])
        return f"paid {bill}"

    return Runtime([pay], settings=place.settings())


def agent_at(rt: Runtime, place: Place) -> ReActAgent:
    return ReActAgent(rt, Model(Path(place.folder)))


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    folder = Path(scene.place.folder)
    async with runtime_at(scene.place) as rt:
        agent = agent_at(rt, scene.place)
        await rt.recover()
        for text, when in SENT:
            sent = await agent.send(text, thread=THREAD, when=when, id=text)  # type: ignore[arg-type]
            append_line(folder / "sent", sent.id)
        while await agent.queued(THREAD) or (await agent.look(THREAD)).state == "running":
            await agent.wait(THREAD)
