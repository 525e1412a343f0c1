"""Long work in threads, and the end of tasks: the parts of a search that keep the event loop free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from clicket.model.text.surrogates import one_line
from clicket.system.bridge import run_in_thread

__all__ = ["cancel_tasks", "describe_error", "run_by_size"]

T = TypeVar("T")
_MAX_INLINE = 100_000
"""Characters. A function that reads more would block the event loop for too long."""


async def run_by_size(size: int, function: Callable[[], T]) -> T:
    """Run a function that reads `size` characters: here, or in a thread when they are many."""
    return function() if size <= _MAX_INLINE else await run_in_thread(function)


async def cancel_tasks(tasks: Collection[asyncio.Future[Any]], grace: float) -> None:
    """Cancel the tasks and wait at most `grace` seconds for their end. Their errors are dropped."""
    rest = [task for task in tasks if not task.done()]
    for task in tasks:
        if task.done():
            _drop_error(task)
        else:
            task.cancel()
            task.add_done_callback(_drop_error)
    if rest:
        await asyncio.wait(rest, timeout=grace)


def _drop_error(task: asyncio.Future[Any]) -> None:
    """Mark the error as read: the event loop logs errors that were not."""
    if not task.cancelled():
        task.exception()


def describe_error(error: BaseException) -> str:
    """An error as one line of a note."""
    return f"{type(error).__name__}: {one_line(str(error), 300)}".removesuffix(": ")
