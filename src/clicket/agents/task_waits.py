"""Waiting for tasks so that none outlives the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

__all__ = ["ended_before", "wait_all"]


async def wait_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all tasks; the first error is raised when all have ended. Cancellation cancels them, and waits for their end."""
    try:
        done, _ = await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    for task in done:
        task.result()


async def ended_before(deadline: asyncio.Future[None], work: asyncio.Future[Any]) -> bool:
    """True if `work` ended before `deadline`. Otherwise, or when the wait is cancelled, `work` has been cancelled and has ended."""
    try:
        await asyncio.wait((work, deadline), return_when=asyncio.FIRST_COMPLETED)
        return work.done()
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait((work,))
