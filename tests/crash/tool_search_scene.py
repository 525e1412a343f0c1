"""A turn that finds a tool, in a process that dies: the model notes what it is offered with each request."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, Literal

import msgspec
from tests.crash.settle import Place, read_lines
from tests.crash.tools import append_line

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["LAST", "MESSAGE", "THREAD", "Scene", "agent_at", "offered_in", "play", "runtime_at"]

MESSAGE, THREAD, LAST = "zzz", "t", "it is painted"
Death = Literal["request", "found", "tool", "never"]
"""Before the request after the search is sent; when its reply would come; while the found tool runs."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def offered_in(place: Place) -> list[dict[str, Any]]:
    """The requests that were sent, in order: their number in the turn, and what they offered."""
    return read_lines(Path(place.folder) / "offered", dict[str, Any])


class Painter:
    name = "painter"

    def __init__(self, folder: Path, death: Death) -> None:
        self._folder = folder
        self._death = death

    async def chat(self, request: ChatRequest) -> ChatReply:
        step = sum(message.role == "assistant" for message in request.messages) + 1
        if step == 2 and self._death == "request":
            die()
        append_line(self._folder / "offered", {"step": step, "names": [offer.name for offer in request.tools]})
        if step == 2 and self._death == "found":
            die()
        replies = {
            1: ToolUse(id="a", name="find_tools", arguments='{"query": "paint a wall", "limit": 3}'),
            2: ToolUse(id="b", name="paint_wall", arguments="{}"),
        }
        return ChatReply(uses=(replies[step],)) if step in replies else ChatReply(text=LAST)


def runtime_at(place: Place, death: Death = "never") -> Runtime:
    folder = Path(place.folder)

    @tool(idempotent=True)
    async def paint_wall() -> str:
        """Paint a wall in any color."""
        if death == "tool":
            die()
        append_line(folder / "painted", True)
        return "painted"

    def other(number: int) -> Any:
        @tool(name=f"tool_{number}", description=f"Does thing number {number} with a wall.")
        async def made() -> int:
            return number

        return made

    return Runtime([paint_wall, *map(other, range(30))], settings=place.settings())


def agent_at(rt: Runtime, place: Place, death: Death = "never") -> ReActAgent:
    return ReActAgent(rt, Painter(Path(place.folder), death), max_offered=4)


def play(given: dict[str, Any]) -> None:
    scene = msgspec.convert(given, Scene)

    async def run() -> None:
        async with runtime_at(scene.place, scene.death) as rt:
            await agent_at(rt, scene.place, scene.death).run(MESSAGE, thread=THREAD)

    asyncio.run(run())
