"""The tools of the crash suite. Every run of a body leaves one line in a file outside the process: the effect counter.

A line is one `write` to a file opened for appending, so a kill leaves all of it or nothing, and lines of
several processes never mix. `before` and `after` are the seconds that a body waits on either side of its effect.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.crash.judge import Rule

from clicket import Policy, RetryableError, ToolContext, tool

POLICY = Policy(ask=["approved"])
RETRIES = 2


def append_line(path: Path, data: Any) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, json.dumps(data).encode() + b"\n")
    finally:
        os.close(file)


def effect(folder: str, ctx: ToolContext) -> dict[str, Any]:
    append_line(Path(folder, "effects"), [ctx.call_id, ctx.attempt, ctx.idempotency_key, ctx.tool])
    return {"id": ctx.call_id, "attempt": ctx.attempt}


async def pause(seconds: float) -> None:
    """0 means no wait at all: the body is over in its first step."""
    if seconds:
        await asyncio.sleep(seconds)


async def work(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    await pause(before)
    done = effect(folder, ctx)
    await pause(after)
    return done


def work_blocking(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    time.sleep(before)
    done = effect(folder, ctx)
    time.sleep(after)
    return done


@tool
async def pay(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(folder, before, after, ctx)


@tool(isolation="thread")
def pay_in_thread(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return work_blocking(folder, before, after, ctx)


@tool(isolation="process")
def pay_in_process(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return work_blocking(folder, before, after, ctx)


@tool(idempotent=True)
async def put(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(folder, before, after, ctx)


@tool(read_only=True)
async def read(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(folder, before, after, ctx)


@tool(recovery="ask")
async def confirm(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(folder, before, after, ctx)


@tool
async def approved(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(folder, before, after, ctx)


@tool
async def stream(folder: str, before: float, after: float, ctx: ToolContext) -> AsyncIterator[str]:
    yield "first "
    await pause(before)
    effect(folder, ctx)
    ctx.progress(1, 2)
    yield "second "
    await pause(after)
    yield "third"


@tool(max_retries=RETRIES, retry_delay=0.01)
async def flaky(folder: str, before: float, after: float, fails: int, ctx: ToolContext) -> dict[str, Any]:
    done = await work(folder, before, after, ctx)
    if ctx.attempt <= fails:
        raise RetryableError("not yet")
    return done


@tool
async def broken(folder: str, before: float, after: float, ctx: ToolContext) -> None:
    await work(folder, before, after, ctx)
    raise ValueError("always")


@tool(max_result_size=1_000)
async def report(folder: str, before: float, after: float, ctx: ToolContext) -> str:
    """Its result does not fit into the journal, so the store keeps it as an artifact."""
    await work(folder, before, after, ctx)
    return long_text(ctx.call_id)


@tool(max_concurrency=1)
async def narrow(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    """One at a time in all processes: a dead process must release its slot."""
    return await work(folder, before, after, ctx)


@tool(read_only=True, cache=60)
async def look_up(folder: str, before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    """Equal calls may share a result, so its arguments have few values."""
    return await work(folder, before, after, ctx)


def long_text(id: str) -> str:
    return f"{id}\n" * 500


TOOLS = [pay, pay_in_thread, put, read, confirm, approved, stream, flaky, broken, report, narrow, look_up]
APART = [pay_in_process]
"""Only in some runs: a runtime with such a tool keeps a worker process warm, and starting Python takes long."""

RULES = {
    "pay": Rule(),
    "pay_in_thread": Rule(),
    "pay_in_process": Rule(),
    "put": Rule(repeatable=True),
    "read": Rule(repeatable=True),
    "confirm": Rule(recovery="ask"),
    "approved": Rule(needs_approval=True),
    "stream": Rule(),
    "flaky": Rule(max_retries=RETRIES),
    "broken": Rule(),
    "report": Rule(artifact=True),
    "narrow": Rule(),
    "look_up": Rule(repeatable=True, cached=True),
}


def tools(*, apart: bool) -> list[Any]:
    return [*TOOLS, *APART] if apart else list(TOOLS)


def arguments(seed: str, id: str, tool: str, folder: str) -> dict[str, Any]:
    """The same for the same id, so any process can submit a call again."""
    chance = random.Random(f"{seed} {id} {tool}")
    waits = (0, 0, 0.001, 0.005, 0.02, 0.05)
    given: dict[str, Any] = {"folder": folder, "before": chance.choice(waits), "after": chance.choice(waits)}
    if tool == "look_up":
        given |= {"before": 0.02, "after": chance.choice((0, 0.001))}
    if tool == "flaky":
        given["fails"] = chance.choice((0, 1, 1, 2, 4))
    return given
