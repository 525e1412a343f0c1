"""Tells the parts of a server whether it runs or shuts down, and ends their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Shutdown", "end_task"]


class Shutdown:
    """`begun` is True as soon as the server takes no more requests, until the application starts again.

    `started`: the application's lifespan has begun. The ASGI server begins it, or the application in which this one is mounted."""

    def __init__(self) -> None:
        self.started = False
        self.begun = False
        self._callbacks: list[Callable[[], object]] = []

    def on_begin(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` when the shutdown begins. Returns a function that removes it."""
        self._callbacks.append(callback)

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return remove

    def start(self) -> None:
        self.started, self.begun = True, False

    def begin(self) -> None:
        if not self.begun:
            self.begun = True
            for callback in tuple(self._callbacks):
                callback()


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end. An error that it raised is raised here."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
