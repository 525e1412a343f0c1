"""Helpers of the command-line tests: tools, and readers of a process's or a terminal's output."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kit.forks import FORKED
from tests.kit.waiting import PATIENCE

from clicket.kernel import State

TOOLS = '''
import asyncio, os
from clicket import RetryableError, ToolContext, tool

def plain(text: str) -> str:
    return text.upper()

@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b

@tool
async def gate(path: str, fail: bool = False):
    """Says that it runs, and ends when the file is there."""
    yield "open\\n"
    while not os.path.exists(path):
        await asyncio.sleep(0.01)
    if fail:
        raise ValueError("told to fail")
    yield "shut\\n"

@tool(max_retries=1, retry_delay=0.05)
async def flaky(ctx: ToolContext) -> str:
    """Fails once."""
    if ctx.attempt == 1:
        raise RetryableError("not yet")
    ctx.progress(1, 2, "half")
    return "ok"

@tool
def boom() -> str:
    """Breaks."""
    raise KeyError("\\x1b]0;gotcha\\x07 [red]text[/red]")

@tool
def wild() -> str:
    """Text that would move a terminal's cursor."""
    return "\\x1b[2Jcleared"

@tool(max_result_size=200)
def big(size: int) -> str:
    """Too much for a model."""
    return "x" * size
'''
PROGRAM = (sys.executable, *FORKED, "-m", "clicket")
Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]


def read_until(process: subprocess.Popen[str], wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """JSON lines of a process, up to the first that matches."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if wanted(seen[-1]):
            return seen
    raise AssertionError(f"ended before that: {seen} {process.communicate()[1]}")


def is_output(event: dict[str, Any]) -> bool:
    return event["type"] == "output"


def is_end(event: dict[str, Any]) -> bool:
    return event["type"] == "state_changed" and State(event["state"]).is_terminal


def no_traceback(done: subprocess.CompletedProcess[str]) -> bool:
    return "Traceback" not in done.stdout + done.stderr


def in_terminal(folder: Path, *arguments: str) -> str:
    """A command's output to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        [*PROGRAM, *arguments], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    while True:
        select.select([ours], [], [], 60)
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux raises it when the other side has closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    process.wait(PATIENCE)
    return written.decode()
