"""The pool of tool processes: at most `size` alive, each used by one caller at a time, first come first served.

A tool process is reused after a normal call, and replaced after anything else. Used from one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

from clicket.engine.executors.processes.handle import ToolFailed, ToolProcess, ToolProcessDied
from clicket.engine.executors.processes.target import Target, factories_for, target_of
from clicket.errors import UsageError

__all__ = ["ProcessPool", "Target", "ToolFailed", "ToolProcess", "ToolProcessDied", "factories_for", "target_of"]


class ProcessPool:
    """Child processes for tools with `isolation="process"`.

    `memory` is the limit of each tool process in bytes (of its data; its children have the same limit, each for itself),
    `grace` the seconds between TERM and KILL, `idle` the seconds after which an unused tool process is ended, `warm` how many
    are always kept.
    """

    def __init__(
        self, *, size: int = 4, memory: int | None = None, grace: float = 2.0, idle: float = 60.0, warm: int = 0
    ) -> None:
        if size < 1 or not 0 <= warm <= size or grace < 0 or idle <= 0:
            raise UsageError(
                "a process pool needs a size of at least 1, warm from 0 to size, a grace and an idle time."
            )
        self._size = size
        self._memory = memory
        self._grace = grace
        self._idle_time = idle
        self._warm = warm
        self._children: dict[ToolProcess, None] = {}  # alive: starting, idle, in use or ending
        self._leaving: set[ToolProcess] = set()
        self._starting = 0
        self._idle: dict[ToolProcess, asyncio.TimerHandle] = {}
        self._waiting: deque[asyncio.Future[ToolProcess]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that run tools, or are ready to."""
        return tuple(child.pid for child in self._children if child.pid)

    def keep_warm(self) -> None:
        """Have a tool process ready from now on."""
        self._warm = max(self._warm, 1)

    async def start(self) -> None:
        """Begin to start the warm tool processes; returns at once."""
        self._check_open()
        self._fill()

    async def acquire(self) -> ToolProcess:
        """A ready tool process, reserved until `release`. Waits while `size` are in use."""
        self._check_open()
        place: asyncio.Future[ToolProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._fill()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.release(place.result())
            raise

    def release(self, child: ToolProcess) -> None:
        """Give a tool process back. One that cannot take another call is ended, with its tree."""
        if child not in self._children or child in self._idle:
            return
        if child.free and not self._closed:
            self._lay_by(child)
            self._fill()
        else:
            self._dismiss(child)

    async def close(self) -> None:
        """End all of them with their trees. Callers that wait for one get a `UsageError`, callers that use one a `ToolProcessDied`."""
        self._closed = True
        for timer in self._idle.values():
            timer.cancel()
        self._idle.clear()
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(_closed())
        await asyncio.gather(*(child.stop() for child in tuple(self._children)))
        await asyncio.gather(*self._tasks)

    def _check_open(self) -> None:
        if self._closed:
            raise _closed()

    def _fill(self) -> None:
        """Give idle tool processes to waiting callers, and start missing tool processes."""
        if self._closed:
            return
        while self._waiting and (self._idle or self._waiting[0].done()):
            place = self._waiting.popleft()
            if not place.done():
                child, timer = self._idle.popitem()  # the one used last: its memory is warm, the others may expire
                timer.cancel()
                place.set_result(child)
        wanted = sum(not place.done() for place in self._waiting)
        while len(self._children) < self._size and (self._starting < wanted or len(self._children) < self._warm):
            try:
                child = ToolProcess.spawn(memory=self._memory, grace=self._grace, ended=self._ended)
            except OSError as error:  # no process, memory or descriptor to be had
                self._give_up(ToolProcessDied(f"no process can be started: {error}. Raise the limits of this host."))
                return
            except UsageError as error:  # a script without a main guard
                self._give_up(error)
                return
            self._children[child] = None
            self._starting += 1
            self._spawn_task(self._bring_up(child))

    async def _bring_up(self, child: ToolProcess) -> None:
        try:
            await child.ready()
        except ToolProcessDied as error:
            self._starting -= 1
            if not self._closed:
                self._give_up(error)
            return
        self._starting -= 1
        if not self._closed:
            self._lay_by(child)
            self._fill()

    def _give_up(self, error: Exception) -> None:
        """A tool process could not be started: the first waiting caller gets the error. No more tool processes are started in advance."""
        self._warm = 0
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(error)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._fill)

    def _lay_by(self, child: ToolProcess) -> None:
        loop = asyncio.get_running_loop()
        self._idle[child] = loop.call_later(self._idle_time, self._expire, child)

    def _expire(self, child: ToolProcess) -> None:
        if child in self._idle and len(self._children) - len(self._leaving) > self._warm:
            del self._idle[child]
            self._dismiss(child)

    def _dismiss(self, child: ToolProcess) -> None:
        self._leaving.add(child)
        self._spawn_task(child.stop())

    def _ended(self, child: ToolProcess) -> None:
        self._children.pop(child, None)
        self._leaving.discard(child)
        timer = self._idle.pop(child, None)
        if timer is not None:
            timer.cancel()
        if child.pid:  # if it never became ready, the waiting caller gets the error first
            self._fill()

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _closed() -> UsageError:
    return UsageError("the process pool is closed; open a new runtime.")
