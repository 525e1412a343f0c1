"""Tools for many processes over one store. Each effect appends a line to one file."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.kit.waiting import file_exists

from clicket import Policy, ToolContext, tool

POLICY = Policy(ask=["asked"])


def leave_trace(folder: str, *words: object) -> None:
    """One line, in one write, so that lines of several processes never mix."""
    line = " ".join(map(str, words)) + "\n"
    file = os.open(Path(folder, "effects"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def traces(folder: Path | str) -> list[list[str]]:
    path = Path(folder, "effects")
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def gate(folder: str, name: str = "go") -> None:
    """Waits until the test makes a file of that name."""
    await file_exists(Path(folder, name))


@tool
async def note(folder: str, ctx: ToolContext, x: int = 0) -> int:
    leave_trace(folder, "note", ctx.call_id, os.getpid())
    return x


@tool
async def slow(folder: str, ctx: ToolContext) -> int:
    leave_trace(folder, "slow", ctx.call_id, os.getpid())
    await gate(folder)
    return os.getpid()


@tool(idempotent=True)
async def again(folder: str, ctx: ToolContext) -> int:
    """Hangs in its first attempt, so that the test can kill its process."""
    leave_trace(folder, "again", ctx.call_id, os.getpid(), ctx.attempt)
    if ctx.attempt == 1:
        await gate(folder, "never")
    return ctx.attempt


@tool(cache=600, idempotent=True)
async def shared(folder: str, ctx: ToolContext, x: int = 0, hang: bool = False) -> int:
    leave_trace(folder, "shared", ctx.call_id, os.getpid(), x)
    if hang:
        await gate(folder)
    return x


@tool(max_concurrency=2, idempotent=True)
async def limited(folder: str, ctx: ToolContext, hang: bool = False) -> None:
    leave_trace(folder, "enter", ctx.call_id, os.getpid())
    if hang:
        await gate(folder)
    await asyncio.sleep(0.005)
    leave_trace(folder, "leave", ctx.call_id, os.getpid())


@tool(max_concurrency=2)
def limited_thread(folder: str, ctx: ToolContext) -> None:
    leave_trace(folder, "enter", ctx.call_id, os.getpid())
    time.sleep(0.005)
    leave_trace(folder, "leave", ctx.call_id, os.getpid())


@tool
def blocking(folder: str, ctx: ToolContext) -> str:
    leave_trace(folder, "blocking", ctx.call_id, os.getpid())
    while not ctx.cancelled and not Path(folder, "go").exists():
        time.sleep(0.005)
    return "stopped" if ctx.cancelled else "done"


@tool(isolation="process", timeout=300, max_retries=0)
def tree(folder: str, ctx: ToolContext) -> None:
    """A body with a child process that ignores SIGTERM."""
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    leave_trace(folder, "tree", ctx.call_id, os.getpid(), child.pid)
    time.sleep(600)


@tool
async def talk(folder: str, n: int) -> AsyncIterator[str]:
    for i in range(n):
        yield f"{i};"
        if i == n // 2:
            await gate(folder)


@tool
async def asked(folder: str, ctx: ToolContext) -> int:
    leave_trace(folder, "asked", ctx.call_id, os.getpid())
    return os.getpid()


@tool(isolation="process", timeout=60, max_retries=0)
def where() -> int:
    return os.getpid()


@tool(isolation="process", timeout=60, max_retries=0, read_only=True)
def where_again() -> int:
    return os.getpid()


@tool
async def pay(folder: str, ctx: ToolContext, ms: int = 0) -> str:
    """May not be repeated."""
    leave_trace(folder, "pay", ctx.call_id, os.getpid())
    await asyncio.sleep(ms / 1000)
    return ctx.call_id


@tool(idempotent=True)
async def fetch(folder: str, ctx: ToolContext, ms: int = 0) -> str:
    """May be repeated."""
    leave_trace(folder, "fetch", ctx.call_id, os.getpid())
    await asyncio.sleep(ms / 1000)
    return ctx.call_id


TOOLS: list[Any] = [
    note, slow, again, shared, limited, limited_thread, blocking, tree, talk, asked, where, where_again, pay, fetch,
]  # fmt: skip
