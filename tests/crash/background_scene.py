"""A turn that starts calls in the background, lists them, cancels one, and has another agent work for it: under a limit of tokens."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, tool
from clicket.agents import Limits, ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage

__all__ = ["EACH", "MESSAGE", "THREAD", "Scene", "agent_at", "play", "runtime_at"]

MESSAGE, THREAD = "Fetch both.", "t"
EACH = Usage(input_tokens=9, output_tokens=1)
"""Of each request."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    max_tokens: int
    death: Death = Death()


def _asks(*uses: tuple[str, dict[str, Any]]) -> ChatReply:
    asked = (
        ToolUse(id=f"{name}-{number}", name=name, arguments=json.dumps(given))
        for number, (name, given) in enumerate(uses)
    )
    return ChatReply(uses=tuple(asked), usage=EACH)


class Model:
    """Every request is logged under its step."""

    name = "boss"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        step = sum(message.role == "assistant" for message in request.messages)
        append_line(self._folder / "asked", [step, [[m.role, m.content] for m in request.messages if m.role == "tool"]])
        if step == 0:
            return _asks(("fetch", {"name": "a"}), ("fetch", {"name": "b"}))
        if step == 1:
            return _asks(("background_calls", {}))
        if step == 2:
            listed = next(m.content for m in request.messages if m.role == "tool" and m.content.startswith("["))
            (call,) = (each["call"] for each in json.loads(listed) if each["arguments"]["name"] == "b")
            return _asks(("cancel_background_call", {"call": call}), ("help", {"task": "sum up"}))
        return ChatReply(text="all done", usage=EACH)


class Helper:
    name = "helper"

    async def chat(self, request: ChatRequest) -> ChatReply:
        if request.messages[-1].role == "tool":
            return ChatReply(text="summed up", usage=EACH)
        return _asks(("count", {"n": 1}))


@tool(background=True, recovery="rerun")
async def fetch(name: str, ctx: ToolContext) -> str:
    """`b` never ends by itself."""
    if name == "b":
        await asyncio.Event().wait()
    return f"fetched {name}"


@tool(recovery="rerun")
async def count(n: int) -> int:
    return n


def runtime_at(place: Place) -> Runtime:
    return Runtime([fetch, count], settings=place.settings())


def agent_at(rt: Runtime, place: Place) -> ReActAgent:
    rt.add(ReActAgent(rt, Helper(), name="helper", tools=["count"]).as_tool("help"))
    return ReActAgent(rt, Model(Path(place.folder)), name="boss", tools=["fetch", "help"])


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    async with runtime_at(scene.place) as rt:
        agent = agent_at(rt, scene.place)
        result = await agent.run(MESSAGE, thread=THREAD, id="one", limits=Limits(max_tokens=scene.max_tokens))
        append_line(Path(scene.place.folder, "used"), [result.text, result.stopped, result.usage.total])
