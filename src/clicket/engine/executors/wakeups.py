"""Wakes the tasks that wait for calls: however many go on in one iteration of the loop, it makes one callback of the loop for them.

A future makes a handle of the loop for each task that waits for it: three Python calls and an object, as much as a stage of the
call. A commit of a hundred calls wakes a hundred tasks at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from clicket.engine.executors.caller_task import Opener
from clicket.system.bridge import fulfil

__all__ = ["Wakeups"]

_Woken = tuple[Context, Callable[[Any], object], asyncio.Future[Any]]


class Wakeups:
    """One for each loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken: list[_Woken] = []

    def fulfil(self, future: asyncio.Future[Any], value: Any = None, error: BaseException | None = None) -> None:
        """Set the value or error of a future, unless it is done. The task that waits for it goes on in the next iteration of the loop."""
        waiting = future._callbacks  # every future of asyncio has it; one that is done has none in it
        if not waiting or len(waiting) != 1:
            fulfil(future, value, error)
            return
        callback, context = waiting[0]
        future.remove_done_callback(callback)  # or the future would make the handle
        if error is None:
            future.set_result(value)
        else:
            fulfil(future, None, error)
        if type(callback) is Opener:  # the body of a call waits: its caller goes on in the next iteration, too
            self.fulfil(callback.gate)
            return
        woken = self._woken
        if not woken:
            self._loop.call_soon(self._wake)
        woken.append((context, callback, future))

    def _wake(self) -> None:
        woken, self._woken = self._woken, []  # what is woken meanwhile is called later
        woken.reverse()
        try:
            while woken:
                context, callback, future = woken.pop()
                context.run(callback, future)
        finally:
            if woken:  # one raised, as KeyboardInterrupt leaves a task and the loop: the others go on with the loop
                if not self._woken:
                    self._loop.call_soon(self._wake)
                self._woken[:0] = woken[::-1]
