"""The one place where sync meets async: workers for blocking functions, a loop for callers that have none."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually

from clicket.errors import UsageError
from clicket.system.bridge import LoopThread, ThreadPool, fulfil, on_loop, on_loop_thread, refuse_running_loop


@pytest.fixture
def thread_pool() -> Any:
    made = ThreadPool(3, "clicket-test")
    yield made
    made.close()


@pytest.fixture
def loop_thread() -> Any:
    made = LoopThread("clicket-test-loop")
    yield made
    made.close()


async def test_a_blocking_function_runs_off_the_loop(thread_pool: ThreadPool) -> None:
    assert await thread_pool.run(threading.get_ident) != threading.get_ident()
    assert await thread_pool.run(lambda: 7) == 7


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), StopIteration(5), MemoryError()], ids=repr
)
async def test_whatever_it_raises_comes_back_and_the_thread_lives_on(
    thread_pool: ThreadPool, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    with pytest.raises((type(error), RuntimeError)):
        async with asyncio.timeout(PATIENCE):
            await thread_pool.run(fail)
    assert await thread_pool.run(lambda: "alive") == "alive"


async def test_threads_are_started_when_needed_reused_and_never_more_than_the_size(thread_pool: ThreadPool) -> None:
    names = {await thread_pool.run(lambda: threading.current_thread().name) for _ in range(10)}
    assert len(names) == 1  # one at a time needs one thread
    gate, inside = threading.Event(), []

    def hold() -> str:
        inside.append(1)
        gate.wait(PATIENCE)
        return threading.current_thread().name

    waiting = [asyncio.ensure_future(thread_pool.run(hold)) for _ in range(8)]
    await eventually(lambda: len(inside) >= 3)
    assert len(inside) == 3
    gate.set()
    assert len(set(await asyncio.gather(*waiting))) == 3
    assert all(name.startswith("clicket-test-") for name in names)


async def test_a_waiter_that_leaves_does_not_stop_the_function(thread_pool: ThreadPool) -> None:
    gate, done = threading.Event(), []

    def work() -> None:
        gate.wait(PATIENCE)
        done.append(True)

    waiting = asyncio.ensure_future(thread_pool.run(work))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()
    await thread_pool.run(lambda: None)
    await eventually(lambda: done)


async def test_done_is_called_on_the_callers_loop(thread_pool: ThreadPool) -> None:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(value: Any, error: BaseException | None) -> None:
        answer.set_result((value, error, threading.get_ident()))

    thread_pool.submit(lambda: "v", done)
    assert await answer == ("v", None, threading.get_ident())


async def test_an_idle_thread_keeps_no_result_alive(thread_pool: ThreadPool) -> None:
    class Big: ...

    made = await thread_pool.run(Big)
    watch = weakref.ref(made)
    del made
    await asyncio.sleep(0)
    await eventually(lambda: gc.collect() >= 0 and watch() is None)


async def test_closed_workers_take_nothing_and_leave_nothing() -> None:
    thread_pool = ThreadPool(2, "clicket-test")
    await asyncio.gather(*(thread_pool.run(lambda: None) for _ in range(4)))
    thread_pool.close()
    with pytest.raises(UsageError, match="closed"):
        await thread_pool.run(lambda: None)
    assert not [t for t in threading.enumerate() if t.name.startswith("clicket-test")]


async def test_closing_does_not_wait_for_a_stuck_function() -> None:
    thread_pool, gate = ThreadPool(1, "clicket-test"), threading.Event()
    waiting = asyncio.ensure_future(thread_pool.run(lambda: gate.wait(2 * PATIENCE)))
    await asyncio.sleep(0.01)
    started = time.monotonic()
    thread_pool.close(patience=0.05)
    assert time.monotonic() - started < PATIENCE
    gate.set()
    assert await waiting


def test_a_loop_in_a_thread_serves_callers_that_have_none(loop_thread: LoopThread) -> None:
    async def where() -> tuple[int, int]:
        await asyncio.sleep(0)
        return threading.get_ident(), id(asyncio.get_running_loop())

    seen = {loop_thread.call(where()) for _ in range(5)}
    assert len(seen) == 1
    assert next(iter(seen)) == (seen.pop()[0], id(loop_thread.loop))


def test_errors_come_back_as_they_are(loop_thread: LoopThread) -> None:
    async def fail(error: BaseException) -> None:
        raise error

    with pytest.raises(ValueError, match="mine"):
        loop_thread.call(fail(ValueError("mine")))
    with pytest.raises(RuntimeError):  # neither swallowed nor translated
        loop_thread.call(fail(RuntimeError("nested loop")))
    with pytest.raises(asyncio.CancelledError):
        loop_thread.call(fail(asyncio.CancelledError()))


def test_an_async_iterator_is_stepped_and_closed(loop_thread: LoopThread) -> None:
    closed = []

    async def count(n: int) -> AsyncIterator[int]:
        try:
            for i in range(n):
                yield i
        finally:
            closed.append(n)

    assert list(loop_thread.iterate(count(4))) == [0, 1, 2, 3]
    for i in loop_thread.iterate(count(100)):
        if i == 2:
            break
    gc.collect()
    assert closed == [4, 100]


def test_closing_ends_what_still_runs() -> None:
    loop_thread, ended = LoopThread("clicket-test-loop"), []

    async def start() -> None:
        async def endless() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        asyncio.get_running_loop().task = asyncio.create_task(endless())  # type: ignore[attr-defined]  # keep it alive
        await asyncio.sleep(0)

    loop_thread.call(start())
    loop_thread.close()
    assert ended == [True]
    assert loop_thread.loop.is_closed()


async def test_a_running_loop_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="event loop") as refused:
        refuse_running_loop("This")
    assert "await" in refused.value.message
    assert await asyncio.to_thread(refuse_running_loop, "This") is None  # another thread may


def test_without_a_loop_nothing_is_refused() -> None:
    refuse_running_loop("This")


async def test_which_loop_is_this(thread_pool: ThreadPool, loop_thread: LoopThread) -> None:
    loop = asyncio.get_running_loop()
    assert on_loop_thread(loop)
    assert not on_loop_thread(loop_thread.loop)
    assert not await thread_pool.run(lambda: on_loop_thread(loop))

    async def which() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert await on_loop(loop, which) is loop
    assert await on_loop(loop_thread.loop, which) is loop_thread.loop


async def test_a_future_is_answered_once() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    fulfil(future, 1)
    fulfil(future, 2)
    fulfil(future, error=ValueError("late"))
    assert await future == 1
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    left.cancel()
    fulfil(left, 1)
    assert left.cancelled()
