"""A turn about a picture, whose tool makes another one: the model must be sent the same pictures after a kill."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom
from tests.crash.settle import Place
from tests.crash.tools import append_line
from tests.kit.pictures import png

from clicket import Image, Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["MESSAGE", "THREAD", "Scene", "agent_at", "play", "runtime_at"]

THREAD = "t"
MESSAGE = ["Draw it larger.", Image(png(shade=1), name="small.png")]


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death = Death()


class Model:
    """Asks for a drawing, then answers. Every request is logged under its step, with the pictures that it shows."""

    name = "painter"
    sees_images = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        step = sum(message.role == "assistant" for message in request.messages)
        shown = {name: sha256(data).hexdigest() for name, data in request.files.items()}
        append_line(self._folder / "asked", [step, [[m.role, m.content] for m in request.messages], shown])
        if step < 2:
            return ChatReply(uses=(ToolUse(id=f"d{step}", name="draw", arguments=f'{{"width":{step + 8}}}'),))
        return ChatReply(text="There.")


def runtime_at(place: Place) -> Runtime:
    folder = Path(place.folder)

    @tool(recovery="rerun")
    async def draw(width: int, ctx: ToolContext) -> list[str | Image]:
        append_line(folder / "effects", [ctx.call_id, width])
        return ["Drawn:", Image(png(width))]

    return Runtime([draw], settings=place.settings())


def agent_at(rt: Runtime, place: Place) -> ReActAgent:
    return ReActAgent(rt, Model(Path(place.folder)))


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    async with runtime_at(scene.place) as rt:
        result = await agent_at(rt, scene.place).run(MESSAGE, thread=THREAD, id="one")
        append_line(Path(scene.place.folder, "used"), result.text)
