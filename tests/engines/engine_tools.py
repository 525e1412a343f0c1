"""Tools that Ray workers, Temporal workers and DBOS run in the tests of engines. Each appends a line to a file when its body runs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from clicket import RetryableError, ToolContext, tool


def runs(path: str | Path) -> list[int]:
    """The process ids of the bodies that ran, in order."""
    file = Path(path)
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def _count(path: str) -> None:
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")


@tool(isolation="ray", resources={"cpu": 1})
def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b, "pid": os.getpid()}


@tool(isolation="ray", resources={"cpu": 0.1})
async def stream(count: int) -> AsyncIterator[str]:
    for number in range(count):
        yield f"line {number}\n"


@tool(isolation="ray", resources={"cpu": 0.1})
def report(steps: int, ctx: ToolContext) -> str:
    for step in range(steps):
        ctx.progress(step + 1, steps, f"step {step + 1}")
        ctx.emit(f"<{step}>")
    return ctx.idempotency_key


@tool(isolation="ray", resources={"cpu": 0.1}, max_retries=2, retry_delay=0.01)
def flaky(path: str) -> int:
    _count(path)
    if len(runs(path)) < 3:
        raise RetryableError("not yet")
    return len(runs(path))


@tool(isolation="ray", resources={"cpu": 0.1}, max_retries=0)
def broken() -> None:
    raise KeyError("no such thing")


@tool(isolation="ray", resources={"cpu": 1}, timeout=600)
def charge(path: str, seconds: float = 60.0) -> str:
    """A payment: it may not be repeated."""
    _count(path)
    time.sleep(seconds)
    return "charged"


@tool(isolation="ray", resources={"cpu": 1}, idempotent=True, retry_delay=0.01, timeout=600)
def fetch(path: str) -> int:
    """Hangs in its first run, returns in the next."""
    _count(path)
    if len(runs(path)) == 1:
        time.sleep(600)
    return len(runs(path))


@tool(isolation="ray", resources={"cpu": 1}, timeout=1, max_retries=0)
async def too_slow(path: str) -> None:
    _count(path)
    await asyncio.sleep(600)


@tool(isolation="ray", resources={"cpu": 64})
def huge(path: str) -> None:
    _count(path)


@tool(isolation="ray", resources={"cpu": 0, "gpu": 1}, timeout=600)
def on_gpu(path: str, seconds: float) -> str:
    """Counts GPUs: bodies log their start and their end."""
    with open(path, "a") as file:
        file.write("begin\n")
        file.flush()
        time.sleep(seconds)
        file.write("end\n")
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")


@tool(timeout=600)
async def pay(path: str, seconds: float = 0.0) -> str:
    """A payment in the process of its worker."""
    _count(path)
    await asyncio.sleep(seconds)
    return "charged"


@tool(idempotent=True, timeout=600)
async def look_up(path: str) -> int:
    """Hangs in its first run, returns in the next."""
    _count(path)
    if len(runs(path)) == 1:
        await asyncio.sleep(600)
    return len(runs(path))


RAY_TOOLS = (add, stream, report, flaky, broken, charge, fetch, too_slow, huge, on_gpu)
