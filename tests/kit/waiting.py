"""Waiting for what cannot be awaited: another process, a thread, a file. Tests await everything else, or step the clock."""

from __future__ import annotations

import asyncio
import inspect
import linecache
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 240.0  # seconds, far more than the slowest machine needs; only a test that fails waits for all of it
_PAUSE = 0.003  # seconds between two looks


async def eventually(condition: Callable[[], Any], *, timeout: float = PATIENCE, what: str | None = None) -> Any:
    """The first true answer of `condition`, which may be async. Fails after `timeout` seconds.

    The failure names the condition: `what`, or else its source. An error of the condition is raised
    at once.
    """
    give_up_at = time.monotonic() + timeout
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > give_up_at:
            raise AssertionError(_complaint(condition, answer, timeout, what))
        await asyncio.sleep(_PAUSE)


def eventually_sync(condition: Callable[[], Any], *, timeout: float = PATIENCE, what: str | None = None) -> Any:
    """`eventually` for tests without a loop."""
    give_up_at = time.monotonic() + timeout
    while not (answer := condition()):
        if time.monotonic() > give_up_at:
            raise AssertionError(_complaint(condition, answer, timeout, what))
        time.sleep(_PAUSE)
    return answer


async def file_exists(path: str | Path) -> None:
    """Returns once the file exists, without a timeout: the gate of a tool that runs until its test makes the file."""
    while not Path(path).exists():
        await asyncio.sleep(_PAUSE)


def file_exists_sync(path: str | Path) -> None:
    """`file_exists` for tools that are plain functions."""
    while not Path(path).exists():
        time.sleep(_PAUSE)


def _complaint(condition: Callable[[], Any], answer: Any, timeout: float, what: str | None) -> str:
    return f"not within {timeout:g} s: {what or _source(condition)}; the last answer was {answer!r}"


def _source(condition: Callable[[], Any]) -> str:
    """The line on which a function begins; the repr of other callables."""
    code = getattr(condition, "__code__", None)
    line = linecache.getline(code.co_filename, code.co_firstlineno).strip() if code else ""
    return f"`{line}` ({Path(code.co_filename).name}:{code.co_firstlineno})" if code and line else repr(condition)
