"""Tools for workers in their own processes. They append their effects to files that every process can read."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.kit.waiting import file_exists, file_exists_sync

from clicket import ToolContext, tool

TOOLS = "tests.scenarios.worker_tools"


def note(log: str, text: str) -> None:
    """One line in one write, so that lines never mix."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{text}\n".encode())
    finally:
        os.close(file)


@tool
async def quick(log: str, name: str) -> str:
    """Done at once, and may be done only once."""
    note(log, name)
    return name


@tool(read_only=True, timeout=None)
async def look(log: str, gate: str) -> str:
    """May be repeated; ends when the gate exists."""
    note(log, "look")
    await file_exists(gate)
    return "seen"


@tool(timeout=None)
async def pay(log: str, gate: str) -> str:
    """May not be repeated; ends when the gate exists."""
    note(log, "pay")
    await file_exists(gate)
    return "paid"


@tool(cache=600)
async def double(number: int) -> int:
    """Its results are cached."""
    return 2 * number


@tool(isolation="process", timeout=None)
def tree(log: str) -> None:
    """Starts a child that ignores SIGTERM, writes both pids to a file, and hangs."""
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    note(log, f"{os.getpid()} {child.pid}")
    time.sleep(600)


@tool(isolation="inline", timeout=None)
def stuck(log: str) -> None:
    """Blocks the worker's event loop."""
    note(log, "stuck")
    file_exists_sync(f"{log}.never")


@tool
async def told(ctx: ToolContext, text: str) -> str:
    """Needs an approval by the policy."""
    return f"{text} in attempt {ctx.attempt}"
