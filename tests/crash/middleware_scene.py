"""A turn with middleware that decides by chance: what the model, a tool or the caller has seen of a decision must hold after a kill."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, ToolResult, tool
from clicket.agents import AgentResult, Change, Edit, Middleware, ReActAgent, Refuse, Turn
from clicket.model import ToolCall
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolUse

__all__ = ["MESSAGE", "THREAD", "Scene", "agent_at", "play", "runtime_at"]

MESSAGE, THREAD = "Pay.", "t"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    death: Death = Death()


def token() -> str:
    return os.urandom(4).hex()


class Chance(Middleware):
    """Each method decides something that it would not decide again. It brings its tool to the second request, and later ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

        @tool(recovery="rerun")
        async def stamp(ctx: ToolContext) -> str:
            append_line(folder / "stamped", ctx.call_id)
            return "stamped"

        self._tools = [stamp]

    def tools(self, turn: Turn) -> Sequence[Any]:
        return self._tools if turn.steps else ()

    def instructions(self, turn: Turn) -> str:
        return f"rule {token()}"

    def before_model(self, turn: Turn, request: ChatRequest) -> Edit:
        return Edit(add=[ChatMessage(role="user", content=f"hint {token()}")], instructions=f"note {token()}")

    def after_model(self, turn: Turn, reply: ChatReply) -> ChatReply | Refuse | None:
        if reply.text == "first try":
            return Refuse(f"refused {token()}")
        return ChatReply(text=f"{reply.text} {token()}") if reply.text == "second try" else None

    def before_tool(self, turn: Turn, call: ToolCall) -> Change | None:
        if call.tool != "pay":
            return None
        return Change({"bill": f"{call.arguments['bill']} {token()}"})

    def after_tool(self, turn: Turn, call: ToolCall, result: ToolResult) -> Change:
        return Change(f"{result.content} seen {token()}")

    def at_end(self, turn: Turn, result: AgentResult) -> Change:
        append_line(self._folder / "drafts", result.text)
        return Change(f"{result.text} signed {token()}")


class Model:
    """Asks for two payments, then answers. Every request is logged under its step."""

    name = "payer"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        said = [message for message in request.messages if message.role == "assistant"]
        offered = [offer.name for offer in request.tools]
        append_line(
            self._folder / "asked", [len(said), [["tools", *offered], *([m.role, m.content] for m in request.messages)]]
        )
        return REPLIES[len(said)]


def _pays(*bills: str) -> ChatReply:
    uses = (ToolUse(id=f"{bill}", name="pay", arguments=msgspec.json.encode({"bill": bill}).decode()) for bill in bills)
    return ChatReply(uses=tuple(uses))


REPLIES: Sequence[ChatReply] = (
    _pays("rent", "gas"),
    ChatReply(uses=(*_pays("phone").uses, ToolUse(id="stamp", name="stamp", arguments="{}"))),
    ChatReply(text="first try"),
    ChatReply(text="second try"),
)


def runtime_at(place: Place) -> Runtime:
    folder = Path(place.folder)

    @tool(recovery="rerun")
    async def pay(bill: str, ctx: ToolContext) -> str:
        append_line(folder / "effects", [ctx.call_id, bill])
        return f"paid {bill}"

    return Runtime([pay], settings=place.settings())


def agent_at(rt: Runtime, place: Place) -> ReActAgent:
    folder = Path(place.folder)
    return ReActAgent(rt, Model(folder), middleware=[Chance(folder)])


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    async with runtime_at(scene.place) as rt:
        agent = agent_at(rt, scene.place)
        result = await agent.run(MESSAGE, thread=THREAD, id="one")
        append_line(Path(scene.place.folder, "used"), result.text)
