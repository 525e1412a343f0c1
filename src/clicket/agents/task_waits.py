"""Waiting for tasks so that none outlives the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

__all__ = ["ended_before", "wait_all"]


async def wait_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all tasks; the first error, in their order, is raised when all have ended. Cancellation cancels them, and waits for their
    end."""
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        await _cancel(tasks)
        raise
    _take_errors(tasks)
    for task in tasks:
        task.result()


async def ended_before(deadline: asyncio.Future[None], work: asyncio.Future[Any]) -> bool:
    """True if `work` ended before `deadline`. Otherwise, or when the wait is cancelled, `work` has been cancelled and has ended."""
    try:
        await asyncio.wait((work, deadline), return_when=asyncio.FIRST_COMPLETED)
        return work.done()
    finally:
        if work.done():
            _take_errors((work,))
        else:
            await _cancel((work,))


async def _cancel(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until all have ended. A second cancellation of the wait, as by a stop and a caller that leaves, does not
    end it earlier: a task that records how it ended must not do so after its turn is over."""
    for task in tasks:
        task.cancel()
    again: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as cancelled:
            again = cancelled
    _take_errors(tasks)
    if again is not None:
        raise again


def _take_errors(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """One error is raised at most; asyncio would report each of the others as never retrieved."""
    for task in tasks:
        if not task.cancelled():
            task.exception()
