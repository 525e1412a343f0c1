"""Every task has a parent: the engine waits for its tasks when it closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

__all__ = ["Tasks"]

logger = logging.getLogger("clicket.engine")


class Tasks:
    def __init__(self) -> None:
        self.running: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something in the background. An error in it is logged."""
        task = self._loop.create_task(work)
        self.running.add(task)
        task.add_done_callback(self._on_done)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """As `spawn`, for work that catches its own errors and calls `discard` at its end: that saves the loop a callback."""
        task = self._loop.create_task(work)
        self.running.add(task)
        return task

    def discard(self, task: asyncio.Task[Any]) -> None:
        self.running.discard(task)

    async def shielded(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for work that goes on also if the waiter is cancelled."""
        task = self.start(work)
        task.add_done_callback(self.running.discard)
        return await asyncio.shield(task)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self.running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of the engine failed", exc_info=task.exception())
