"""An event loop whose time and order come from a seed. The product's own code runs on it, unchanged.

Of the callbacks that are ready the seed picks the next one; callbacks of one object keep their order, as asyncio promises. When nothing is
ready, time jumps to the next timer. Threads, sockets, signals and child processes are refused by name.

Each callback belongs to a node: the simulated process in whose context it was made. A node that crashed runs no callback any more; one
that is paused runs them later.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, Literal

__all__ = ["NODE", "Node", "Order", "SimulatedLoop", "Stuck"]

Order = Literal["first", "uniform", "priorities"]
"""How the next callback is picked: the oldest, any, or the one of the highest priority, where priorities change now and then."""
_MOST_STEPS = 1_000_000
_CHANGES = 0.01
"""How likely a callback that is due has its object's priority changed at a step."""


class Stuck(Exception):
    """Nothing can happen any more, or things happen for ever."""


class Node:
    """A simulated process."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.is_alive = True
        self.paused_until = 0.0
        self.skew = 0.0
        """Seconds by which its date is ahead."""
        self.skewed = False
        self.was_away = False
        """It was paused, or cut off: it may act for a moment as if it still owned what another one has taken over."""
        self.is_forgotten = False
        """What it said may be lost with the power, so an answer that was under way does not arrive."""
        self.held: list[asyncio.Handle] = []
        """What became ready while it was paused."""

    def __repr__(self) -> str:
        return self.name


NODE: ContextVar[Node | None] = ContextVar("NODE", default=None)


class _Task(asyncio.Task[Any]):
    """Sets of tasks, as asyncio itself has them, are in an order that their addresses do not change."""

    def __init__(self, coro: Any, number: int, **given: Any) -> None:
        self.number = number  # before asyncio puts the task into its own set
        super().__init__(coro, **given)

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[Any]):
    number = 0

    def __hash__(self) -> int:
        return self.number


class _Quick:
    """A handle without what asyncio does for its debug mode: handles are a tenth of a seed."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: SimulatedLoop, context: Context | None) -> None:
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None


class _Handle(_Quick, asyncio.Handle):
    __slots__ = ()


class _Timer(_Quick, asyncio.TimerHandle):
    """If it is cancelled, it stays in the heap, and is skipped when its time comes."""

    __slots__ = ()


class SimulatedLoop(asyncio.BaseEventLoop):
    def __init__(self, chance: random.Random, order: Order = "uniform", *, slow: float = 0.0) -> None:
        super().__init__()
        self.chance, self.order, self.slow = chance, order, slow
        self.steps = 0
        self.trace: list[str] | None = None
        self.on_step: Callable[[], None] | None = None
        """Called after each callback: here a node may crash or pause."""
        self._at = 0.0
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._due: list[asyncio.Handle] = []
        self._by_priority: list[tuple[float, int, asyncio.Handle]] = []
        """What is due, as a heap, if priorities decide."""
        self._priorities: dict[int, float] = {}
        self._kept: list[Any] = []
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._at

    def pass_time(self, seconds: float) -> None:
        """A callback takes so long."""
        self._at += seconds

    # What asyncio asks of a loop.

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._add(handle)
        return handle

    call_soon_threadsafe = call_soon  # there is one thread

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._at + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        timer = _Timer(callback, args, self, context)
        timer._when = when
        heapq.heappush(self._waiting, (when, next(self._numbers), timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        future = _Future(loop=self)
        future.number = next(self._numbers)
        return future

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = _Task(coro, next(self._numbers), loop=loop, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._kept.append(task)  # a task of a crashed node never goes on, and its `finally` blocks never run
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        raise AssertionError(f"a thread in a simulation: {func!r}")

    def _refused(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"a socket, signal or child process in a simulation: {args!r}")

    add_reader = add_writer = add_signal_handler = _make_socket_transport = _refused
    create_connection = create_server = subprocess_exec = subprocess_shell = create_datagram_endpoint = _refused  # type: ignore[assignment]

    # Steps.

    def _run_once(self) -> None:
        """All steps until the loop is stopped."""
        random, following = self.chance.random, self._next
        while not self._stopping:  # type: ignore[attr-defined]
            handle = following()
            self.steps += 1
            if self.steps > _MOST_STEPS:
                raise Stuck(f"{self.steps} steps: things happen for ever")
            self._at += random() * 0.0002 if not self.slow or random() > 0.01 else random() * self.slow
            if self.trace is not None:
                self.trace.append(f"{self._at:.6f} {handle._context.get(NODE)} {_named(handle)}")
            handle._run()
            handle = None  # type: ignore[assignment]
            if self.on_step is not None:
                self.on_step()

    def _next(self) -> asyncio.Handle:
        waiting, due, by_priority = self._waiting, self._due, self._by_priority
        while True:
            while waiting and waiting[0][0] <= self._at:
                self._add(heapq.heappop(waiting)[2])
            while due or by_priority:
                handle = due.pop() if len(due) == 1 else self._pick()
                if handle._cancelled:
                    continue
                node = handle._context.get(NODE)
                if node is None or (node.is_alive and node.paused_until <= self._at):
                    return handle
                if not node.is_alive:
                    self._kept.append(handle)
                else:
                    if not node.held:
                        self.call_at(node.paused_until, self.resume, node, context=Context())
                    node.held.append(handle)
            if not waiting:
                raise Stuck("nothing can happen any more")
            self._at = max(self._at, waiting[0][0])

    def resume(self, node: Node) -> None:
        for handle in node.held:
            self._add(handle)
        node.held = []

    def _add(self, handle: asyncio.Handle) -> None:
        if self.order == "priorities":
            priority = self._priority(_owner(handle))
            heapq.heappush(self._by_priority, (-priority, next(self._numbers), handle))
        else:
            self._due.append(handle)

    def _pick(self) -> asyncio.Handle:
        if self.order == "priorities":
            return self._pick_by_priority()
        due = self._due
        if self.order == "first":
            return due.pop(0)
        at = int(self.chance.random() * len(due))
        of = _owner(due[at])
        for index in range(at):
            if _owner(due[index]) is of:
                return due.pop(index)
        return due.pop(at)

    def _pick_by_priority(self) -> asyncio.Handle:
        due = self._by_priority
        if len(due) > 1 and self.chance.random() < _CHANGES * len(due):
            changed = _owner(due[int(self.chance.random() * len(due))][2])
            priority = self._priorities[id(changed)] = self.chance.random()
            due[:] = [(-priority if _owner(each[2]) is changed else each[0], *each[1:]) for each in due]
            heapq.heapify(due)
        return heapq.heappop(due)[2]

    def _priority(self, owner: Any) -> float:
        found = self._priorities.get(id(owner))
        if found is None:
            self._kept.append(owner)  # or another object might get its number
            found = self._priorities[id(owner)] = self.chance.random()
        return found

    def _process_events(self, event_list: Any) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There is no other thread."""


def _owner(handle: asyncio.Handle) -> Any:
    callback = handle._callback
    if type(callback) is partial:
        callback = callback.func
    return getattr(callback, "__self__", callback)


def _named(handle: asyncio.Handle) -> str:
    callback = handle._callback
    callback = getattr(callback, "func", callback)
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return getattr(owner.get_coro(), "__qualname__", "task")
    return getattr(callback, "__qualname__", type(callback).__name__)
