"""The only place where blocking code and event loops call each other.

`ThreadPool` runs blocking functions in threads; `LoopThread` runs coroutines for blocking callers. Both use daemon
threads: Python cannot end a thread, so a stuck one must never keep the process from exiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from types import FrameType
from typing import Any, TypeVar

from clicket import system
from clicket.errors import UsageError
from clicket.system import Done

__all__ = [
    "LoopThread",
    "ThreadPool",
    "block_on",
    "enter_with",
    "fulfil",
    "on_loop",
    "on_loop_thread",
    "refuse_forked",
    "refuse_other_loop",
    "refuse_running_loop",
    "run_in_thread",
    "stack_of_this_thread",
    "wait_on",
    "within",
]

T = TypeVar("T")
_MANNER = {"async with": "async", "with": "blocking"}
_PATIENCE = 10.0
"""Seconds without an iteration of the loop after which it counts as blocked."""


class ThreadPool:
    """A few threads that run blocking functions and report to the loop that submitted them."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self._threads = system.current().threads(size, name)

    def submit(self, function: Callable[[], Any], done: Done) -> None:
        """Run `function` in one of the threads; `done(value, error)` is called on this loop when it has returned."""
        self._threads.submit(function, done)

    async def run(self, function: Callable[[], T]) -> T:
        """Run `function` in one of the threads and wait for it. Cancelling the wait does not stop the function."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        self.submit(function, lambda value, error: fulfil(future, value, error))
        return await future

    def close(self, patience: float = 1.0) -> None:
        """End the idle threads. A thread that is stuck in a function is left alone; it ends with its function or the process."""
        self._threads.close(patience)


async def run_in_thread(function: Callable[[], Any]) -> Any:
    """Run a blocking function in a thread of its own. One that never returns does not keep others waiting."""
    thread_pool = ThreadPool(1, "clicket-thread")
    context = contextvars.copy_context()
    try:
        return await thread_pool.run(lambda: context.run(function))
    finally:
        thread_pool.close(0)


def stack_of_this_thread() -> Callable[[], FrameType | None]:
    """A function that reads, from any thread, what the calling thread is doing: its innermost frame."""
    ident = threading.get_ident()
    return lambda: sys._current_frames().get(ident)


class LoopThread:
    """One event loop in one daemon thread, for callers that have none."""

    def __init__(self, name: str = "clicket-loop") -> None:
        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def _finish(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=1.0)
        await self.loop.shutdown_asyncgens()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its value. Ctrl-C in the caller cancels it on the loop."""
        try:
            refuse_forked(self.process)  # a fork copies no threads: in the child the loop never runs again
        except UsageError:
            coroutine.close()
            raise
        outcome: Future[T] = Future()
        started: list[asyncio.Task[T]] = []

        def start() -> None:
            started.append(self.loop.create_task(coroutine))
            started[0].add_done_callback(lambda task: _pass_on(task, outcome))

        def stop() -> None:
            if started:
                started[0].cancel()
            else:
                coroutine.close()

        try:
            self.loop.call_soon_threadsafe(start)
            return outcome.result()
        except FutureCancelled:
            raise asyncio.CancelledError from None
        except BaseException:
            if not outcome.done():
                with contextlib.suppress(RuntimeError):  # the loop was closed: nothing runs on it
                    self.loop.call_soon_threadsafe(stop)
            raise

    def run(self, function: Callable[[], T]) -> T:
        """Run a plain function on the loop and wait for its value."""

        async def step() -> T:
            return function()

        return self.call(step())

    def spawn(self, function: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run a coroutine function on the loop, if that runs here, and do not wait for it."""
        if self.process == os.getpid():
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self.loop.call_soon_threadsafe(lambda: self.loop.create_task(function()))

    def iterate(self, iterator: AsyncIterator[T]) -> Iterator[T]:
        """Iterate an async iterator from blocking code; leaving the iteration early closes it."""
        end = object()

        async def step() -> Any:
            return await anext(iterator, end)

        try:
            while (item := self.call(step())) is not end:
                yield item
        finally:
            close = getattr(iterator, "aclose", None)
            # A loop that has ended closed what was open on it; in a forked process it does not run.
            if close is not None and not self.loop.is_closed() and self.process == os.getpid():
                self.call(close())

    def close(self) -> None:
        """Cancel the tasks on the loop, then end the loop and its thread."""
        self.call(self._finish())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def _pass_on(task: asyncio.Task[T], outcome: Future[T]) -> None:
    if task.cancelled():
        outcome.cancel()
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def fulfil(future: asyncio.Future[Any], value: Any = None, error: BaseException | None = None) -> None:
    """Set the future's value or error, unless it is done or cancelled already."""
    if not future.done():
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):  # a future cannot carry it
            future.set_exception(RuntimeError(f"{error!r} was raised where no iterator was expected"))
        else:
            future.set_exception(error)


def refuse_running_loop(what: str) -> None:
    """Raise `UsageError`, in place of a deadlock, when blocking code is called inside a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        f"{what} would block the event loop that is running in this thread. "
        "Use its async twin (clicket.Runtime, clicket.client.Client) with await, or call it from a thread of its own "
        "(asyncio.to_thread)."
    )


async def within(timeout: float | None, id: str, outcome: Awaitable[T]) -> T:
    """The outcome of a call, or `TimeoutError` after this many seconds; only the wait ends then."""
    if timeout is None:
        return await outcome
    try:
        return await asyncio.wait_for(outcome, timeout)
    except TimeoutError:
        raise TimeoutError(
            f"call {id!r} has not ended after {timeout:g} s; it goes on. Ask again, or cancel it with handle.cancel()."
        ) from None


def enter_with(right: str, name: str, other: str, twin: str) -> Callable[..., Any]:
    """For the `__enter__` of an async API, and the `__aenter__` of a blocking one: raises `UsageError` that says what to write."""

    def refuse(*_: Any) -> Any:
        raise UsageError(
            f"write `{right} {name}(...) as rt:`, or `{other} {twin}(...) as rt:`. {name} is {_MANNER[right]}."
        )

    return refuse


def refuse_forked(process: int) -> None:
    """Raise `UsageError` in a process that was forked from `process`, where a runtime was opened."""
    if os.getpid() != process:
        raise UsageError(
            f"the runtime was opened in process {process}, and this process was forked from it: the event loop and the threads of the "
            "runtime are not here. Close the runtime before the fork and open one in each process after it, or start the process with "
            "multiprocessing.get_context('spawn')."
        )


def refuse_other_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Raise `UsageError` in an event loop other than this one, where a runtime's futures would never be fulfilled."""
    running = asyncio._get_running_loop()
    if running is None or running is loop:
        return
    ended = ", which has ended" if loop.is_closed() else ""
    raise UsageError(
        f"the runtime was opened in another event loop{ended}. It works only there: open and use it inside one "
        "asyncio.run(main()), or use clicket.sync.Runtime, which has a loop of its own."
    )


async def on_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on another loop, and wait for it on this one."""
    if on_loop_thread(loop):
        return await function()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(), loop))


def block_on(loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on the loop that started this thread, and wait for it."""
    return asyncio.run_coroutine_threadsafe(function(), loop).result()


def wait_on(loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]], what: str) -> T:
    """Run a coroutine function on a loop of another thread, and wait for it in this one.

    A loop that does not run for a while is most likely waiting for this call: then `UsageError` is raised, in place of a deadlock.
    """
    refuse_running_loop(what)
    outcome: Future[T] = Future()
    begun: Future[None] = Future()
    tasks: list[asyncio.Task[T]] = []

    def begin() -> None:
        if begun.set_running_or_notify_cancel():
            tasks.append(loop.create_task(function()))
            tasks[0].add_done_callback(lambda task: _pass_on(task, outcome))
            begun.set_result(None)

    if not loop.is_running():
        raise UsageError(f"{what} needs the event loop that its runtime was opened in, and that one is not running.")
    loop.call_soon_threadsafe(begin)
    try:
        begun.result(_PATIENCE)
    except TimeoutError:
        if begun.cancel():
            raise UsageError(
                f"{what} waited {_PATIENCE:g} s for its runtime's event loop, which is blocked: most likely by the very "
                "call that led here. Use the async way there (await, ainvoke), or clicket.sync.Runtime."
            ) from None
    try:
        return outcome.result()
    except FutureCancelled:
        raise asyncio.CancelledError from None
    except BaseException:
        if not outcome.done():
            with contextlib.suppress(RuntimeError):  # the loop was closed: nothing runs on it
                loop.call_soon_threadsafe(tasks[0].cancel)
        raise


def on_loop_thread(loop: asyncio.AbstractEventLoop) -> bool:
    """Is this code running on that loop right now?"""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
