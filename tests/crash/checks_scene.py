"""A turn whose checks decide by chance, and ask a person three times: what was seen of a decision must hold after a kill."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import doom
from tests.crash.middleware_scene import Scene, token
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, ToolResult, tool
from clicket.agents import Ask, Change, Check, ReActAgent, Refuse, Turn
from clicket.errors import ClicketError
from clicket.model import ToolCall
from clicket.model.chat import ChatReply, ChatRequest, ToolUse

__all__ = ["ASKED", "MESSAGE", "THREAD", "agent_at", "play", "runtime_at"]

MESSAGE, THREAD = "Pay.", "t"
ASKED = ("check:person", "check:person", "pay")
"""The tools of the calls that a person decides about: the message, the answer, and a payment."""


def adds(turn: Turn, value: str) -> Change:
    return Change(f"{value} {token()}")


def person(turn: Turn, value: str) -> Ask | None:
    return None if value.startswith("first try") else Ask(f"may it? {token()}")


def second(turn: Turn, value: str) -> Refuse | None:
    return Refuse(f"refused {token()}") if value.startswith("first try") else None


def bills(turn: Turn, value: ToolCall) -> Change | Ask:
    if value.arguments["bill"] == "gas":
        return Ask(f"gas? {token()}")
    return Change({"bill": f"{value.arguments['bill']} {token()}"})


def read(turn: Turn, value: ToolResult) -> Change:
    return Change(f"{value.content} read {token()}")


CHECKS = [
    Check(adds, on="input"),
    Check(person, on="input"),
    Check(bills, on="tool_call", tools=["p*"]),
    Check(read, on="tool_result"),
    Check(second, on="output"),
    Check(adds, on="output"),
    Check(person, on="output"),
    Check(adds, on="output", name="adds-more"),
]


class Model:
    """Asks for two payments, then answers twice. Every request is logged under its step."""

    name = "payer"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        said = [message for message in request.messages if message.role == "assistant"]
        append_line(self._folder / "asked", [len(said), [[m.role, m.content] for m in request.messages]])
        if said:
            return ChatReply(text=f"{'first' if len(said) == 1 else 'second'} try {token()}")
        return ChatReply(uses=tuple(
            ToolUse(id=bill, name="pay", arguments=msgspec.json.encode({"bill": bill}).decode()) for bill in ("rent", "gas")
        ))  # fmt: skip


def runtime_at(place: Place) -> Runtime:
    folder = Path(place.folder)

    @tool(recovery="rerun")
    async def pay(bill: str, ctx: ToolContext) -> str:
        append_line(folder / "effects", [ctx.call_id, bill])
        return f"paid {bill}"

    return Runtime([pay], settings=place.settings())


def agent_at(rt: Runtime, place: Place) -> ReActAgent:
    return ReActAgent(rt, Model(Path(place.folder)), checks=CHECKS)


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    folder = Path(scene.place.folder)
    async with runtime_at(scene.place) as rt:
        agent = agent_at(rt, scene.place)
        run = asyncio.ensure_future(agent.run(MESSAGE, thread=THREAD, id="one"))
        while not (await asyncio.wait([run], timeout=0.01))[0]:  # a person looks now and then
            await _decide(rt, agent, folder)
        append_line(folder / "used", run.result().text)


async def _decide(rt: Runtime, agent: ReActAgent, folder: Path) -> None:
    for id in (await agent.look(THREAD)).waiting_for:
        record = await rt.get(id, thread=THREAD)
        for event in record.events:
            if event.type == "approval_requested":
                append_line(folder / "decided", [id, record.tool, event.data["reason"], record.arguments])
        with suppress(ClicketError):  # decided already: the call goes on in a moment
            await rt.approve(id, thread=THREAD)
