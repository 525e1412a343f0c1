"""A turn that remembers and forgets, and a caller that is forgotten, each in a process that dies."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, tool
from clicket.agents import Memory, ReActAgent, Todo
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["ANN", "BOB", "FACTS", "OLD", "Scene", "agent_at", "forget", "play", "prepare", "runtime_at"]

ANN, BOB = "ann-the-caller", "bob-the-caller"
OLD = "The user is called Ann."
FACTS = ("The user drinks tea.", "The user has a dog.")


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death = Death()
    adds: str = ""
    """What a person has remembered before the process runs."""


def _use(id: str, name: str, /, **arguments: Any) -> ToolUse:
    return ToolUse(id=id, name=name, arguments=msgspec.json.encode(arguments).decode())


class Model:
    """Remembers two facts, forgets what it was shown first, remembers one of them again, and answers."""

    name = "rememberer"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        said = [message for message in request.messages if message.role == "assistant"]
        append_line(self._folder / "asked", [len(said), [[m.role, m.content] for m in request.messages]])
        system = request.messages[0].content
        old = next(msgspec.json.decode(line)["id"] for line in system.splitlines() if OLD in line)
        return (
            ChatReply(uses=(_use("a", "remember", fact=FACTS[0]), _use("b", "remember", fact=FACTS[1]))),
            ChatReply(uses=(_use("c", "write_todo", items=[{"text": "forget"}]), _use("d", "forget", id=old))),
            ChatReply(uses=(_use("e", "note", fact="I am quick."),)),
            ChatReply(text="done"),
        )[len(said)]


def runtime_at(place: Place) -> Runtime:
    @tool
    async def save(text: str, ctx: ToolContext) -> str:
        return await ctx.put_artifact(text.encode())

    return Runtime([save], settings=place.settings())


def agent_at(rt: Runtime, place: Place, caller: str) -> ReActAgent:
    return ReActAgent(rt.acting_for(caller), Model(Path(place.folder)), middleware=[Memory(), Memory("agent"), Todo()])


async def prepare(place: Place, *callers: str) -> None:
    async with runtime_at(place) as rt:
        for caller in callers:
            await rt.memory.add(OLD, caller=caller)


def play(given: dict[str, Any]) -> None:
    """In a child process: the turn."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    async with runtime_at(scene.place) as rt:
        if scene.adds:
            await rt.memory.add(scene.adds, caller=ANN)
        result = await agent_at(rt, scene.place, ANN).run("Remember me.", thread="t", id="one")
        append_line(Path(scene.place.folder, "used"), result.text)


def forget(given: dict[str, Any]) -> None:
    """In a child process: everything of a caller is removed."""
    scene = msgspec.convert(given, Scene)
    asyncio.run(_forget(scene))


async def _forget(scene: Scene) -> None:
    async with runtime_at(scene.place) as rt:
        store: Any = rt.engine.store
        writes = 0

        def dying(write: Any) -> Any:
            async def written(*given: Any) -> Any:
                nonlocal writes
                result = await write(*given)
                writes += 1
                if writes == scene.death.at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            return written

        for name in ("remove", "unpin", "release", "delete_document", "put_tool_health", "audit"):
            setattr(store, name, dying(getattr(store, name)))
        await rt.forget(caller=ANN)
