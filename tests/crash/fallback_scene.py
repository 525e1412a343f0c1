"""An agent with two models, of which the first never answers, in a process that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom, note
from tests.crash.settle import Place, read_lines
from tests.crash.tools import append_line

from clicket import Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.errors import RetryableError
from clicket.model.chat import ChatReply, ChatRequest, Delta, ToolUse, Usage
from clicket.models import Fallback

__all__ = ["COST", "Play", "agent_at", "play", "runtime_at"]

COST = {"first": 40, "second": 15}
"""Tokens of each answer."""
_BUDGETS: list[dict[str, Any]] = [{"scope": "all", "period": "total", "limit_tokens": 1_000_000}]


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """`declines`: the first model declines, which costs something; else it fails, and is held. `budget`: requests are reserved. `dies_at`:
    the process is killed in the middle of this answer of the second model, counted from 1 over all processes."""

    place: Place
    declines: bool = False
    budget: bool = True
    death: Death = Death()
    dies_at: int = 0


class First:
    name = "first"

    def __init__(self, play: Play) -> None:
        self._play = play

    async def chat(self, request: ChatRequest) -> ChatReply:
        append_line(Path(self._play.place.folder) / "asked", self.name)
        await asyncio.sleep(0)
        if not self._play.declines:
            raise RetryableError("HTTP 503", reason="unavailable")
        return ChatReply(text="No.", ended="refusal", usage=Usage(input_tokens=COST["first"] - 1, output_tokens=1))


class Second:
    """Calls the tool twice, then answers."""

    name = "second"

    def __init__(self, play: Play) -> None:
        self._play = play

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ChatRequest, tell: Any) -> ChatReply:
        folder = Path(self._play.place.folder)
        append_line(folder / "asked", self.name)
        tell(Delta("text", "He"))
        await asyncio.sleep(0)
        if read_lines(folder / "asked", str).count(self.name) == self._play.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        done = sum(message.role == "tool" for message in request.messages)
        usage = Usage(input_tokens=COST["second"] - 1, output_tokens=1)
        if done == 2:
            return ChatReply(text="done", usage=usage)
        return ChatReply(uses=(ToolUse(id=f"use_{done}", name="pay", arguments="{}"),), usage=usage)


def runtime_at(play: Play) -> Runtime:
    folder = Path(play.place.folder)

    @tool
    async def pay(ctx: ToolContext) -> str:
        note(ctx, "begin", folder)
        return "paid"

    return Runtime([pay], settings=play.place.settings(budgets=_BUDGETS if play.budget else []))


def agent_at(rt: Runtime, play: Play) -> ReActAgent:
    chain = Fallback(First(play), Second(play), on=("unavailable", "refusal"), hold=600.0)
    return ReActAgent(rt, chain, name="a", max_answer_tokens=5)


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Play)
    doom(scene.death, Path(scene.place.folder))
    asyncio.run(_play(scene))


async def _play(scene: Play) -> None:
    async with runtime_at(scene) as rt:
        async for _ in agent_at(rt, scene).stream("go", thread="t"):
            pass
