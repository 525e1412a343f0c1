"""A turn that pays three bills, one of them by another agent, and is undone: because it fails, or on demand; in a process that is
killed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from tests.crash.agent_scene import Death, doom, note
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Record, Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.errors import ClicketError
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["THREAD", "Scene", "agent_at", "play", "run", "runtime_at"]

THREAD = "t"
_ASKS: dict[str, list[list[tuple[str, dict[str, Any]]]]] = {
    "boss": [[("pay", {"bill": "rent"})], [("help", {"task": "pay the gas"})], [("pay", {"bill": "power"})]],
    "helper": [[("pay", {"bill": "gas"})]],
}
"""The tool calls of each of an agent's replies."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """`why`: the turn fails, and undoes itself; or it ends well, and a person has it undone."""

    place: Place
    why: Literal["failed", "demand"]
    death: Death = Death()


class Model:
    """Answers by the number of its replies. After the last tool call the one of the first turn fails, if it is to."""

    def __init__(self, folder: Path, agent: str, *, fails: bool = False) -> None:
        self.name = agent
        self._folder = folder
        self._fails = fails

    async def chat(self, request: ChatRequest) -> ChatReply:
        if request.messages[0].content == "next":
            return ChatReply(text="next")
        append_line(self._folder / "asked", [self.name, [message.content for message in request.messages]])
        if any(message.content == "next" for message in request.messages):
            return ChatReply(text="read")
        step = sum(message.role == "assistant" for message in request.messages)
        asks = _ASKS[self.name]
        if step < len(asks):
            return ChatReply(
                uses=tuple(
                    ToolUse(id=f"{self.name}_{step}_{n}", name=name, arguments=msgspec.json.encode(given).decode())
                    for n, (name, given) in enumerate(asks[step])
                )
            )
        if self._fails:
            raise ValueError("the plan fails")
        return ChatReply(text="done")


def runtime_at(place: Place) -> Runtime:
    folder = Path(place.folder)

    async def refund(call: Record, ctx: ToolContext) -> str:
        note(ctx, call.id, folder)
        return "refunded"

    @tool(undo=refund, max_retries=0)
    async def pay(bill: str, ctx: ToolContext) -> str:
        note(ctx, "begin", folder)
        return f"paid {bill}"

    return Runtime([pay], settings=place.settings())


def agent_at(rt: Runtime, scene: Scene) -> ReActAgent:
    folder = Path(scene.place.folder)
    rt.add(ReActAgent(rt, Model(folder, "helper"), name="helper", tools=["pay"]).as_tool("help"))
    fails = scene.why == "failed"
    return ReActAgent(
        rt, Model(folder, "boss", fails=fails), name="boss", tools=["pay", "help"], undo_on="failed" if fails else None
    )


async def run(rt: Runtime, agent: ReActAgent, scene: Scene) -> None:
    """To the end of the turn, and of its undo."""
    with suppress(ClicketError, ValueError):
        await agent.run("pay", thread=THREAD, id="one")
    if scene.why == "demand":
        await rt.undo(thread=THREAD, turn=1)


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    async with runtime_at(scene.place) as rt:
        await run(rt, agent_at(rt, scene), scene)
