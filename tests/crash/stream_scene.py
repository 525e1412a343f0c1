"""An agent whose pieces are stored, and a reader of its thread that writes down what it gets, as a browser that comes back with its
last id. The process is killed and started again. The model gives another answer each time that it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, tool
from clicket.agents import AgentEvent, ReActAgent, pieces
from clicket.model.chat import ChatReply, ChatRequest, Delta, ToolUse

__all__ = ["THREAD", "Scene", "answer", "play", "runtime_at"]

THREAD = "t"
_PIECES = 12


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death = Death()


def answer(asked: int) -> list[str]:
    """The pieces of the answer to the n-th request."""
    return [f"{asked}:{piece} " for piece in range(_PIECES)]


class Model:
    name = "typist"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.stream(request, lambda piece: None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        log = self._folder / "asked"
        number = len(log.read_text().splitlines()) if log.exists() else 0
        append_line(log, number)
        for piece in answer(number):
            await asyncio.sleep(0.004)
            tell(Delta("text", piece))
        is_last = any(message.role == "tool" for message in request.messages)
        uses = () if is_last else (ToolUse(id="use", name="look", arguments="{}"),)
        return ChatReply(text="".join(answer(number)), uses=uses)


def runtime_at(place: Place) -> tuple[Runtime, ReActAgent]:
    @tool(read_only=True)
    async def look() -> str:
        return "seen"

    rt = Runtime([look], settings=place.settings())
    return rt, ReActAgent(rt, Model(Path(place.folder)), deltas="stored")


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    pieces.WRITE_EVERY = 0.01
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    log = Path(scene.place.folder) / "read"
    read = [msgspec.json.decode(line, type=AgentEvent) for line in log.read_text().splitlines()] if log.exists() else []
    after = next((event.id for event in reversed(read) if event.id), "")
    rt, agent = runtime_at(scene.place)
    async with rt:
        await rt.recover()
        if not (await agent.look(THREAD)).turns and await agent._threads.record(THREAD, 1) is None:
            await agent.begin("go", thread=THREAD)
        async for event in agent.events(THREAD, after=after):
            append_line(log, msgspec.to_builtins(event))
