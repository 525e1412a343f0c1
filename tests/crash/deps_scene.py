"""A turn whose run brings a dep. Its process is killed; another one, which makes the dep or has to be given it, continues the turn."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from tests.crash.agent_scene import Death, doom
from tests.crash.settle import Place
from tests.crash.tools import append_line
from tests.kit.waiting import PATIENCE

from clicket import Depends, Runtime, ToolContext, tool
from clicket.agents import AgentState, ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["MESSAGE", "THREAD", "Bank", "Scene", "agent_at", "play", "runtime_at"]

MESSAGE, THREAD = "Pay.", "t"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """`has`: how the process gets the dep: its caller brings it at once, its runtime makes it, or it waits until its caller brings it."""

    place: Place
    has: Literal["brought", "made", "nothing"] = "brought"
    death: Death = Death()


class Bank:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.name = name

    def pay(self, call: str, bill: str) -> str:
        append_line(self._folder / "effects", [call, bill, self.name])
        return f"paid {bill}"


class Model:
    """Asks for payments in two steps, then answers."""

    name = "payer"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return REPLIES[sum(message.role == "assistant" for message in request.messages)]


def _pays(*uses: tuple[str, str]) -> ChatReply:
    return ChatReply(
        uses=tuple(
            ToolUse(id=bill, name=name, arguments=msgspec.json.encode({"bill": bill}).decode()) for name, bill in uses
        )
    )


REPLIES = (
    _pays(("pay", "rent"), ("pay_again", "gas"), ("by_context", "water")),
    _pays(("pay", "phone"), ("by_context", "net")),
    ChatReply(text="all paid"),
)


@tool
async def pay(bill: str, ctx: ToolContext, bank: Annotated[Bank, Depends("bank")]) -> str:
    return bank.pay(ctx.call_id, bill)


@tool(recovery="rerun")
async def pay_again(bill: str, ctx: ToolContext, bank: Annotated[Bank, Depends("bank")]) -> str:
    """May be paid twice by the same call."""
    return bank.pay(ctx.call_id, bill)


@tool(recovery="rerun")
async def by_context(bill: str, ctx: ToolContext) -> str:
    return str(ctx.deps["bank"].pay(ctx.call_id, bill))


def runtime_at(scene: Scene) -> Runtime:
    folder = Path(scene.place.folder)
    factories = {"bank": lambda: Bank(folder, "made")} if scene.has == "made" else None
    return Runtime([pay, pay_again, by_context], deps=factories, settings=scene.place.settings())


def agent_at(rt: Runtime) -> ReActAgent:
    return ReActAgent(rt, Model())


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    folder = Path(scene.place.folder)
    async with runtime_at(scene) as rt:
        agent = agent_at(rt)
        brought = {"bank": Bank(folder, "brought")}
        if scene.has == "nothing":
            await rt.recover()
            await _waits(agent, folder)
            brought = {"bank": Bank(folder, "late")}
        if scene.has == "made":
            result = await agent.run(MESSAGE, thread=THREAD, turn=1)
        else:
            result = await agent.run(MESSAGE, thread=THREAD, turn=1, deps=brought)
        append_line(folder / "used", result.text)


async def _waits(agent: ReActAgent, folder: Path) -> None:
    """Until the interrupted turn, if there is one, says that it waits."""
    give_up_at = time.monotonic() + PATIENCE
    while (view := await agent.look(THREAD)).state is AgentState.RUNNING and time.monotonic() < give_up_at:
        if view.waiting_for == ["dep:bank"]:
            append_line(folder / "waited", view.waiting_for)
            return
        await asyncio.sleep(0.005)
