"""A runtime that the test kills. Its tools append lines to files, hang the first time, and return the second.

`python -m tests.scenarios.crash_child STORE FOLDER SETTINGS CALL...`: submits each call (a tool's name, `*n` for n of
them) and prints a line for everything that the parent may wait for.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.kit.waiting import file_exists

from clicket import Policy, RetryableError, Runtime, Settings, ToolContext, tool

POLICY = Policy(ask=["asked"])


def say(*words: object) -> None:
    print(*words, flush=True)


def trace(folder: str, ctx: ToolContext) -> int:
    """One more effect of this call; returns how many there are now."""
    path = Path(folder) / f"{ctx.call_id}.effects"
    with path.open("a") as file:
        file.write(f"{ctx.idempotency_key} {ctx.attempt}\n")
    return len(path.read_text().splitlines())


async def effect(folder: str, ctx: ToolContext) -> int:
    times = trace(folder, ctx)
    if times == 1:
        say("started", ctx.call_id)
        await asyncio.sleep(600)
    return times


@tool
async def plain(folder: str, ctx: ToolContext) -> int:
    return await effect(folder, ctx)


@tool(idempotent=True)
async def idempotent(folder: str, ctx: ToolContext) -> int:
    return await effect(folder, ctx)


@tool(read_only=True)
async def read_only(folder: str, ctx: ToolContext) -> int:
    return await effect(folder, ctx)


@tool(recovery="rerun")
async def rerun(folder: str, ctx: ToolContext) -> int:
    return await effect(folder, ctx)


@tool(recovery="fail", idempotent=True)
async def fail(folder: str, ctx: ToolContext) -> int:
    return await effect(folder, ctx)


@tool(recovery="ask")
async def ask(folder: str, ctx: ToolContext) -> int:
    return await effect(folder, ctx)


@tool
async def asked(folder: str, ctx: ToolContext) -> int:
    trace(folder, ctx)
    return 1


@tool
async def streaming(folder: str, ctx: ToolContext) -> int:
    ctx.emit("half a word")
    await ctx.drain()
    return await effect(folder, ctx)


@tool(idempotent=True)
async def streaming_again(folder: str, ctx: ToolContext) -> int:
    ctx.emit("half a word")
    ctx.progress(1, 2)
    await ctx.drain()
    return await effect(folder, ctx)


@tool(retry_delay=600)
async def backing_off(folder: str, ctx: ToolContext) -> int:
    times = trace(folder, ctx)
    if times == 1:
        asyncio.get_running_loop().call_later(0.05, say, "started", ctx.call_id)
        raise RetryableError("later")
    return times


@tool
def threaded(folder: str, ctx: ToolContext) -> int:
    import time

    times = trace(folder, ctx)
    if times == 1:
        say("started", ctx.call_id)
        time.sleep(600)
    return times


@tool(isolation="process", timeout=600)
def in_process(folder: str, ctx: ToolContext) -> int:
    import time

    times = trace(folder, ctx)
    if times == 1:
        Path(folder, "pid").write_text(str(os.getpid()))
        ctx.emit("up")
        time.sleep(600)
    return times


@tool
async def resumes(folder: str, ctx: ToolContext) -> str:
    """For a process that is stopped and continued: returns once a file exists."""
    trace(folder, ctx)
    say("started", ctx.call_id)
    await file_exists(Path(folder, "go"))
    return "from the old owner"


@tool
async def quick(folder: str, ctx: ToolContext) -> int:
    return trace(folder, ctx)


TOOLS = [
    plain, idempotent, read_only, rerun, fail, ask, asked, streaming, streaming_again, backing_off, threaded, in_process,
    resumes, quick,
]  # fmt: skip


async def main(store: str, folder: str, settings: str, *calls: str) -> None:
    given: dict[str, Any] = json.loads(settings)
    deadline = given.pop("deadline", None)
    stay = given.pop("stay", True)
    async with Runtime(TOOLS, policy=POLICY, settings=Settings(store=store, **given)) as rt:
        say("open")
        handles = []
        for call in calls:
            name, _, count = call.partition("*")
            for i in range(int(count or 1)):
                id = f"{name}{i}" if count else name
                handles.append(await rt.submit(name, {"folder": folder}, id=id, deadline=deadline))
                say("accepted", id)
        if "in_process" in calls:
            async for event in handles[list(calls).index("in_process")].events():
                if event.type == "output":
                    say("started", "in_process")
                    break
        if stay:
            await asyncio.sleep(600)
        for handle in handles:
            result = await handle.result()
            say("result", handle.id, result.state.value, result.output)
    say("closed")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
