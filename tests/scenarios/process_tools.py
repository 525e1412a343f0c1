"""Tools for child processes, which import them by name, so they are top-level functions."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from clicket import RetryableError, ToolContext, tool
from clicket.errors import InvalidInput

TREE = {"isolation": "process", "timeout": 30, "max_retries": 0}


@tool(**TREE)
def add(a: int, b: int) -> int:
    return a + b


@tool(**TREE)
def where_am_i(ctx: ToolContext) -> dict[str, Any]:
    return {"pid": os.getpid(), "key": ctx.idempotency_key, "thread": ctx.thread, "time_left": ctx.time_left}


@tool(**TREE)
def hang_with_child(ctx: ToolContext) -> None:
    """Starts a child that ignores SIGTERM, reports both pids, and hangs."""
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    ctx.emit([os.getpid(), child.pid])
    time.sleep(600)


@tool(isolation="process", timeout=0.3, idempotent=True, max_retries=2, retry_delay=0.01)
def slow_at_first(marker: str) -> str:
    """Hangs the first time, returns the second."""
    path = Path(marker)
    if not path.exists():
        path.write_text("been here")
        time.sleep(600)
    return "done"


@tool(isolation="process", max_retries=2, retry_delay=0.01, retry_on=(KeyError,))
def flaky(marker: str) -> int:
    path = Path(marker)
    tries = int(path.read_text()) if path.exists() else 0
    path.write_text(str(tries + 1))
    if tries < 2:
        raise KeyError("not yet") if tries else RetryableError("not yet")
    return tries + 1


@tool(isolation="process", max_retries=0)
def picky(order: str) -> None:
    raise InvalidInput(f"there is no order {order}")


@tool(**TREE)
def misbehave(how: str) -> Any:
    if how == "sys.exit":
        sys.exit(3)
    if how == "os._exit":
        os._exit(4)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "memory":
        hoard = []
        while True:
            hoard.append(bytearray(16 * 1024 * 1024))
    return how


@tool(**TREE)
def emit_then(ctx: ToolContext, n: int) -> str:
    for i in range(n):
        ctx.emit(f"{i};")
        ctx.progress(i + 1, n)
    return "done"


@tool(**TREE)
async def keeper(what: str, ctx: ToolContext) -> None:
    await (ctx.checkpoint("a", b"x") if what == "checkpoint" else ctx.checkpoints())


@tool(**TREE, credentials=["github"])
def whose_token(ctx: ToolContext) -> str:
    return ctx.credential("github").partition("-")[0]
