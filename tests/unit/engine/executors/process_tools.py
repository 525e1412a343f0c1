"""Tools that run in child processes and behave badly there. Imported by name, in the tests and in the children."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from clicket.errors import RetryableError
from clicket.tools.context import ToolContext
from clicket.tools.function import tool

calls = 0


class Busy(Exception):
    """The tool's own error class."""


@tool
def add(a: int, b: int) -> int:
    return a + b


@tool
async def greet(name: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"text": f"hello {name}", "pid": os.getpid()}


@tool
def report(ctx: ToolContext) -> dict[str, Any]:
    ctx.emit({"n": 1})
    ctx.progress(1, 4, "one of four")
    ctx.heartbeat()
    ctx.note("a remark", size=3)
    return {
        "call_id": ctx.call_id,
        "attempt": ctx.attempt,
        "key": ctx.idempotency_key,
        "metadata": ctx.metadata,
        "cancelled": ctx.cancelled,
        "has_time": ctx.time_left is not None and 0 < ctx.time_left <= 30,
    }


@tool
async def stream(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i


@tool
def flood(n: int) -> Iterator[str]:
    for i in range(n):
        yield f"{i:08d}" + "x" * 65_536


@tool
def count() -> list[int]:
    global calls
    calls += 1
    return [os.getpid(), calls]


@tool
def nap(ctx: ToolContext) -> None:
    ctx.emit(os.getpid())
    time.sleep(600)


@tool
async def anap(path: str, ctx: ToolContext) -> None:
    try:
        ctx.emit(os.getpid())
        await asyncio.sleep(600)
    finally:
        Path(path).write_text("cleaned up")


@tool
def tidy(path: str, ctx: ToolContext) -> None:
    try:
        ctx.emit(os.getpid())
        time.sleep(600)
    finally:
        Path(path).write_text(f"cleaned up, cancelled={ctx.cancelled}")


# Failing --------------------------------------------------------------------------------------------------------------


@tool(retry_on=Busy)
def fail(kind: str) -> None:
    if kind == "retryable":
        raise RetryableError("come back", retry_after=7)
    if kind == "surrogate":
        raise ValueError("broken \ud800 text")
    if kind == "exit":
        sys.exit(4)
    if kind == "long":
        raise ValueError("x" * 1_000_000)
    raise {"value": ValueError, "connection": ConnectionResetError, "busy": Busy, "interrupt": KeyboardInterrupt}[kind](
        f"a {kind} error"
    )


@tool
def die(how: str) -> None:
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), getattr(signal, how))
    time.sleep(600)


@tool
def give(what: str) -> Any:
    cycle: list[Any] = []
    cycle.append(cycle)
    return {
        "nan": math.nan,
        "cycle": cycle,
        "generator": (i for i in range(3)),
        "bytes": b"\x00",
        "object": object(),
        "big": 2**64,
        "text": "naïve ☃",
        "none": None,
    }[what]


@tool
def emit_object(ctx: ToolContext) -> None:
    ctx.emit(object())


@tool
def large(size: int) -> str:
    return "x" * size


@tool
def eat() -> int:
    eaten = []
    while True:
        eaten.append(bytearray(16 * 1024 * 1024))


# Misbehaving ----------------------------------------------------------------------------------------------------------


@tool
def shout() -> str:
    print("print", "x" * 10_000)
    os.write(1, b"\x00\x00\x00\x01\x08 raw bytes\n")
    sys.stdout.buffer.write(b"\xff\xfe")
    subprocess.run(["echo", "from a child"], check=True)
    print("\ud800 to stderr", file=sys.stderr)
    return "quiet"


@tool
def deaf(ctx: ToolContext) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctx.emit(os.getpid())
    while True:
        time.sleep(600)


@tool
def clinging(ctx: ToolContext) -> None:
    """Treats its cancellation like any other error and continues."""
    ctx.emit(os.getpid())
    while True:
        try:
            time.sleep(600)
        except BaseException:
            continue


@tool
def holding(ctx: ToolContext) -> None:
    """Never releases the GIL: no signal handler and no other thread of this process runs any more."""
    ctx.emit(os.getpid())
    ctypes.PyDLL(None).sleep(600)


@tool
def family(ctx: ToolContext) -> None:
    """A child, its child, and a daemon: forked twice, in its own session, with an empty environment."""
    shell = subprocess.Popen(
        ["/bin/sh", "-c", "trap '' TERM; sleep 600 & echo $!; wait; sleep 600"], stdout=subprocess.PIPE
    )
    assert shell.stdout is not None
    grandchild = int(shell.stdout.readline())
    out, into = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(into, b"%d\n" % os.getpid())
            os.execve("/bin/sleep", ["sleep", "600"], {})
        os._exit(0)
    daemon = int(os.read(out, 64))
    ctx.emit([os.getpid(), os.getppid(), shell.pid, grandchild, daemon])
    time.sleep(600)


@tool
def orphans() -> list[int]:
    """Leaves a child and a daemon running, and returns."""
    child = subprocess.Popen(["/bin/sleep", "600"])
    shell = subprocess.run(
        ["/bin/sh", "-c", "setsid sleep 600 >/dev/null & echo $!"], stdout=subprocess.PIPE, check=True, text=True
    )
    return [child.pid, int(shell.stdout)]


@tool
def crash_with_child(ctx: ToolContext) -> None:
    ctx.emit(subprocess.Popen(["/bin/sleep", "600"]).pid)
    os.kill(os.getpid(), signal.SIGSEGV)


@tool
def close_everything() -> str:
    os.closerange(3, 256)
    return "closed"


@tool
def kill_guard(ctx: ToolContext) -> None:
    ctx.emit([os.getpid(), subprocess.Popen(["/bin/sleep", "600"]).pid])
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


@tool
def fork_twice_as_much() -> str:
    os.fork()
    return "one of two"


@tool
def fork_and_emit(ctx: ToolContext) -> int:
    pid = os.fork()
    if pid == 0:
        ctx.emit("not mine to say")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@tool
def leave_thread(path: str, ctx: ToolContext) -> str:
    def later() -> None:
        while not Path(path).exists():
            time.sleep(0.001)
        ctx.emit("too late")
        Path(path).write_text("said")

    threading.Thread(target=later).start()
    return "left"


@tool
def wake_thread(path: str) -> None:
    Path(path).write_text("")
    while Path(path).read_text() != "said":
        time.sleep(0.001)


class Box:
    @staticmethod
    @tool
    def unpack(x: int) -> int:
        return x + 1


def plain(x: int) -> int:
    return x * 2


doubled = tool(name="double")(plain)
"""A tool whose function name refers to the bare function: it is found by its own name."""
