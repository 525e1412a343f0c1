"""Tasks that belong to whoever waits for them: none outlives the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

__all__ = ["all_done"]


async def all_done(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all; whoever is cancelled meanwhile cancels them, and waits until they have stopped."""
    try:
        done, _ = await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    for task in done:
        task.result()
