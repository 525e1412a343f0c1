"""A script that sends two messages to an agent, one after the other, and uses each answer. It is killed and started again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom, note
from tests.crash.nest import say_ready
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["FIRST", "OTHER", "SECOND", "THREAD", "Play", "Used", "agent_at", "play", "runtime_at"]

THREAD = "ann"
FIRST, SECOND, OTHER = "Pay the rent.", "Pay the gas.", "Pay the phone."


class Used(msgspec.Struct, frozen=True, array_like=True):
    """An answer that the script has used."""

    message: str
    turn: int
    text: str


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """One start of the script. `way`: how it sends. `named`: with an id for each message. `second`: its second message. `tool`: the
    only one of the agent. `early`: the agent is made before the runtime opens, which then takes up an interrupted turn."""

    place: Place
    death: Death = Death()
    way: str = "run"
    named: bool = True
    second: str = SECOND
    tool: str = "pay"
    early: bool = False


class Model:
    """In each turn it asks for the agent's tool once, then it answers with the result. Every request is logged."""

    name = "payer"

    def __init__(self, folder: Path, tool: str) -> None:
        self._folder = folder
        self._tool = tool

    async def chat(self, request: ChatRequest) -> ChatReply:
        messages = request.messages
        asked = max(place for place, message in enumerate(messages) if message.role == "user")
        append_line(self._folder / "asked", [messages[asked].content, len(messages) - asked])
        if len(messages) - asked == 1:
            arguments = msgspec.json.encode({"bill": messages[asked].content}).decode()
            return ChatReply(uses=(ToolUse(id=f"use_{len(messages)}", name=self._tool, arguments=arguments),))
        return ChatReply(text=messages[-1].content)


def runtime_at(place: Place) -> Runtime:
    folder = Path(place.folder)

    @tool
    async def pay(bill: str, ctx: ToolContext) -> str:
        note(ctx, "begin", folder)
        await asyncio.sleep(0)
        return f"done: {bill}"

    @tool
    async def cancel(bill: str, ctx: ToolContext) -> str:
        note(ctx, "begin", folder)
        return f"cancelled: {bill}"

    return Runtime([pay, cancel], settings=place.settings())


def agent_at(rt: Runtime, place: Place, tool: str = "pay") -> ReActAgent:
    return ReActAgent(rt, Model(Path(place.folder), tool), tools=[tool])


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Play)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Play) -> None:
    folder, rt = Path(scene.place.folder), runtime_at(scene.place)
    agent = agent_at(rt, scene.place, scene.tool) if scene.early else None
    async with rt:
        agent = agent or agent_at(rt, scene.place, scene.tool)
        say_ready()
        for message in (FIRST, scene.second):
            append_line(folder / "used", await _sent(agent, scene, message))


async def _sent(agent: ReActAgent, scene: Play, message: str) -> list[Any]:
    id = message if scene.named else None
    if scene.way == "run":
        result = await agent.run(message, thread=THREAD, id=id)
        return [message, result.turn, result.text]
    if scene.way == "begin":
        number = await agent.begin(message, thread=THREAD, id=id)
        ended = await agent.wait(THREAD, number)
        assert ended is not None
        return [message, number, ended.text]
    events = [event async for event in agent.stream(message, thread=THREAD, id=id)]
    assert events[-1].type == "final", events[-1]
    return [message, events[-1].turn, events[-1].data["text"]]
