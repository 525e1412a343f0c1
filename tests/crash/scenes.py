"""Children for the single scenarios: each runs its calls, logs the answers that it gets, and dies or closes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.child import acknowledge
from tests.crash.judge import Ack, Effect, Rule
from tests.crash.nest import say_ready
from tests.crash.settle import Place
from tests.crash.tools import POLICY, effect
from tests.kit.waiting import PATIENCE, eventually, file_exists

from clicket import Runtime, ToolContext, tool

__all__ = ["RULES", "TOOLS", "Scene", "act"]


async def hang(folder: str, ctx: ToolContext) -> int:
    """The first attempt has its effect and does not return; later ones do."""
    effect(folder, ctx)
    if ctx.attempt == 1:
        await asyncio.sleep(600)
    return ctx.attempt


@tool
async def pay(folder: str, ctx: ToolContext) -> int:
    return await hang(folder, ctx)


@tool(idempotent=True)
async def put(folder: str, ctx: ToolContext) -> int:
    return await hang(folder, ctx)


@tool(recovery="ask")
async def confirm(folder: str, ctx: ToolContext) -> int:
    return await hang(folder, ctx)


@tool
async def quick(folder: str, ctx: ToolContext) -> int:
    effect(folder, ctx)
    return ctx.attempt


@tool(idempotent=True)
async def deadly(folder: str, ctx: ToolContext) -> None:
    effect(folder, ctx)
    os.kill(os.getpid(), signal.SIGKILL)


@tool(idempotent=True, isolation="process")
def deadly_apart(folder: str, ctx: ToolContext) -> None:
    """Kills the runtime, not only the worker process that runs it."""
    effect(folder, ctx)
    os.kill(int(Path(folder, "pid").read_text()), signal.SIGKILL)


async def resume(folder: str, ctx: ToolContext) -> str:
    """The first attempt returns once a file exists."""
    effect(folder, ctx)
    if ctx.attempt == 1:
        await file_exists(Path(folder, "go"))
    return f"attempt {ctx.attempt}"


@tool
async def resumes(folder: str, ctx: ToolContext) -> str:
    return await resume(folder, ctx)


@tool(idempotent=True)
async def resumes_again(folder: str, ctx: ToolContext) -> str:
    return await resume(folder, ctx)


@tool(idempotent=True)
async def stuck(folder: str, ctx: ToolContext) -> None:
    """No attempt ever returns."""
    effect(folder, ctx)
    await asyncio.sleep(600)


TOOLS = [stuck, pay, put, confirm, quick, deadly, resumes, resumes_again]
RULES = {
    "pay": Rule(),
    "put": Rule(repeatable=True),
    "confirm": Rule(recovery="ask"),
    "quick": Rule(),
    "deadly": Rule(repeatable=True),
    "deadly_apart": Rule(repeatable=True),
    "stuck": Rule(repeatable=True),
    "resumes": Rule(),
    "resumes_again": Rule(repeatable=True),
}


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """`submit` and `call` list calls as (tool, id). The child makes the `call` ones first, then `submit`, then waits
    for `until`."""

    place: Place
    call: tuple[tuple[str, str], ...] = ()
    submit: tuple[tuple[str, str], ...] = ()
    until: tuple[tuple[str, int], ...] = ()
    """Calls by id, and which attempt of each must have had its effect before the child continues."""
    die: bool = True
    """Kill itself then; else wait for the results of `submit` and `watch`, and close."""
    watch: tuple[str, ...] = ()
    apart: bool = False
    settings: dict[str, Any] = {}


def act(given: dict[str, Any]) -> None:
    asyncio.run(_act(msgspec.convert(given, Scene)))


async def _act(scene: Scene) -> None:
    place = scene.place
    folder = Path(place.folder)
    Path(folder, "pid").write_text(str(os.getpid()))
    tools = [*TOOLS, deadly_apart] if scene.apart else TOOLS
    async with Runtime(tools, policy=POLICY, settings=place.settings(**scene.settings)) as rt:
        say_ready()
        arguments = {"folder": place.folder}
        for tool_name, id in scene.call:
            _tell(folder, await rt.call(tool_name, arguments, id=id))
        handles = []
        for tool_name, id in scene.submit:
            handles.append(await rt.submit(tool_name, arguments, id=id))
            acknowledge(folder, Ack(did="submit", id=id))
        wanted = set(scene.until)
        await eventually(
            lambda: wanted <= {(line.id, line.attempt) for line in place.lines("effects", Effect)}, timeout=PATIENCE
        )
        if scene.die:
            os.kill(os.getpid(), signal.SIGKILL)
        for handle in [*handles, *[await rt.handle(id) for id in scene.watch]]:
            _tell(folder, await handle.result())


def _tell(folder: Path, result: Any) -> None:
    code = result.error.code if result.error is not None else None
    acknowledge(folder, Ack(did="result", id=result.call_id, state=result.state.value, code=code, output=result.output))
