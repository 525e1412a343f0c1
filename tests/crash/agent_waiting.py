"""Turns that wait in the middle: for a tool that does not return, for a model that does not reply, for an approval."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import (
    MESSAGE,
    TURN,
    Effect,
    Model,
    Script,
    asked,
    effects,
    note,
    thread_of,
    tools_at,
    turn_thread,
)
from tests.crash.nest import say_ready
from tests.crash.settle import Place
from tests.crash.tools import append_line
from tests.kit.waiting import eventually

from clicket import Policy, Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.errors import NotFound
from clicket.model.chat import ChatReply, ChatRequest

__all__ = ["SCRIPTS", "Stay", "TurnEnd", "agent_at", "runtime_at", "stay", "waits"]

SCRIPTS: dict[str, Script] = {
    "repeatable": [[("pay", {"n": 1})], [("hang", {"n": 2}), ("pay", {"n": 3})], [("pay", {"n": 4})], []],
    "once": [[("pay", {"n": 1})], [("hang_once", {"n": 2}), ("pay", {"n": 3})], [("pay", {"n": 4})], []],
    "model": [[("pay", {"n": 1})], [("pay", {"n": 2})], []],
    "approval": [[("pay", {"n": 1}), ("approved", {"n": 2}), ("look", {"n": 3})], [("pay", {"n": 4})], []],
    "deadly": [[("pay", {"n": 1})], [("deadly", {"n": 2}), ("pay", {"n": 3})], [("pay", {"n": 4})], []],
}
"""Keyed by what the second reply (for "approval" the first) waits for."""


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """A child that runs a turn up to the point where it waits, then dies; or runs until the turn ends, and reports the
    end."""

    place: Place
    script: str
    die: bool = True
    early: bool = False
    """The agent is made before the runtime opens, so the runtime resumes the turn at once."""


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the turn ended, as reported to a child that stayed."""

    stopped: str = ""
    steps: int = 0
    error: str = ""


class Patient(Model):
    """Never replies to the second request of the first process that sends it."""

    async def chat(self, request: ChatRequest) -> ChatReply:
        reply = await super().chat(request)
        if asked(self._folder).count(2) == 1 and asked(self._folder)[-1] == 2:
            await asyncio.sleep(600)
        return reply


def waiting_tools(folder: Path) -> list[Any]:
    async def hangs(n: int, ctx: ToolContext) -> str:
        """The first attempt has its effect and does not return; later ones do."""
        note(ctx, "begin", folder)
        if ctx.attempt == 1:
            await asyncio.sleep(600)
        note(ctx, "end", folder)
        return f"{n} after all"

    @tool(idempotent=True, timeout=900)
    async def hang(n: int, ctx: ToolContext) -> str:
        return await hangs(n, ctx)

    @tool(timeout=900)
    async def hang_once(n: int, ctx: ToolContext) -> str:
        return await hangs(n, ctx)

    @tool
    async def approved(n: int, ctx: ToolContext) -> str:
        note(ctx, "begin", folder)
        note(ctx, "end", folder)
        return f"{n} approved"

    @tool(idempotent=True)
    async def deadly(n: int, ctx: ToolContext) -> None:
        note(ctx, "begin", folder)
        os.kill(os.getpid(), signal.SIGKILL)

    return [hang, hang_once, approved, deadly]


def runtime_at(place: Place, **settings: Any) -> Runtime:
    folder = Path(place.folder)
    return Runtime(
        [*tools_at(folder), *waiting_tools(folder)],
        settings=place.settings(**settings),
        policy=Policy(ask=["approved"]),
    )


def agent_at(rt: Runtime, place: Place, script: str) -> ReActAgent:
    model = Patient if script == "model" else Model
    return ReActAgent(rt, model(Path(place.folder), script=SCRIPTS[script]))


async def on_record(rt: Runtime, place: Place) -> int:
    """How many results of the turn are stored."""
    try:
        turn = await rt.get(TURN, thread=turn_thread(place))
    except NotFound:
        return 0
    entries = [event.data.get("entry", {}) for event in turn.events if event.type == "note"]
    return sum(len(entry["items"]) for entry in entries if entry.get("e") == "results")


async def waits(rt: Runtime, agent: ReActAgent, place: Place, script: str) -> None:
    """Returns when the turn waits and its other calls have ended."""
    folder, thread = Path(place.folder), thread_of(place)

    def began(effect: Effect) -> bool:
        return effect.side == "begin" and effect.tool in ("hang", "hang_once")

    async def there() -> bool:
        if script == "model":
            return 2 in asked(folder)
        calls = (await rt.history(thread=thread)).items
        ended = sum(1 for call in calls if call.state.is_terminal)
        if script == "approval":
            return await on_record(rt, place) == 2 and len((await agent.look(thread)).waiting_for) == 1
        return ended == 2 and any(map(began, effects(folder)))

    await eventually(there)


def stay(given: dict[str, Any]) -> None:
    asyncio.run(_stay(msgspec.convert(given, Stay)))


async def _stay(scene: Stay) -> None:
    place, thread = scene.place, thread_of(scene.place)
    rt = runtime_at(place)
    if scene.early:
        agent_at(rt, place, scene.script)
    async with rt:
        agent = agent_at(rt, place, scene.script)
        turn = asyncio.create_task(agent.run(MESSAGE, thread=thread))
        if scene.script != "deadly":
            await waits(rt, agent, place, scene.script)
        say_ready()
        if scene.die and scene.script != "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        append_line(Path(place.folder) / "here", True)
        try:
            result = await turn
            end = TurnEnd(stopped=result.stopped, steps=result.steps)
        except BaseException as error:
            end = TurnEnd(error=repr(error))
        append_line(Path(place.folder) / "told", msgspec.to_builtins(end))
