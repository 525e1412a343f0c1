"""Tasks that wait for calls are woken together, as asyncio itself would wake them: in order, in their own context, in the next turn
of the loop. A gate opens at once."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from clicket import Runtime, Settings, State, tool
from clicket.engine.executors import Wakeups
from clicket.engine.executors.caller_task import Opener

_name: ContextVar[str] = ContextVar("_name", default="")


def futures(count: int) -> list[asyncio.Future[Any]]:
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


async def test_tasks_go_on_in_order_each_in_its_own_context() -> None:
    wakeups, waits, went = Wakeups(), futures(3), list[tuple[str, int]]()

    async def wait(number: int) -> None:
        _name.set(f"task {number}")
        value = await waits[number]
        went.append((_name.get(), value))

    tasks = [asyncio.ensure_future(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    for number in (1, 0, 2):
        wakeups.fulfil(waits[number], number * 10)
    assert waits[1].result() == 10  # at once
    assert went == []  # the tasks go on later
    await asyncio.gather(*tasks)
    assert went == [("task 1", 10), ("task 0", 0), ("task 2", 20)]
    assert _name.get() == ""


async def test_errors_and_cancellations_reach_the_task() -> None:
    wakeups, (failed, cancelled, done) = Wakeups(), futures(3)
    tasks = [asyncio.ensure_future(each) for each in (_wait(failed), _wait(cancelled), _wait(done))]
    await asyncio.sleep(0)
    wakeups.fulfil(failed, error=ValueError("no"))
    wakeups.fulfil(cancelled, 1)
    tasks[1].cancel()  # its future is done: the task is cancelled at its next step, as asyncio does it
    done.cancel()
    wakeups.fulfil(done, 1)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [ValueError, asyncio.CancelledError, asyncio.CancelledError]


async def _wait(future: asyncio.Future[Any]) -> Any:
    return await future


async def test_a_future_without_or_with_several_waiters_is_fulfilled_too() -> None:
    wakeups, (alone, shared) = Wakeups(), futures(2)
    wakeups.fulfil(alone, 1)
    assert await alone == 1
    waiting = [asyncio.ensure_future(asyncio.shield(shared)) for _ in range(2)]
    await asyncio.sleep(0)
    wakeups.fulfil(shared, 2)
    assert await asyncio.gather(*waiting) == [2, 2]


async def test_what_is_woken_meanwhile_waits_for_the_next_turn() -> None:
    wakeups, (first, second), went = Wakeups(), futures(2), list[str]()

    async def wake_other() -> None:
        await first
        wakeups.fulfil(second)
        loop.call_soon(went.append, "between")
        went.append("first")

    async def wait() -> None:
        await second
        went.append("second")

    loop = asyncio.get_running_loop()
    tasks = [asyncio.ensure_future(each) for each in (wake_other(), wait())]
    await asyncio.sleep(0)
    wakeups.fulfil(first)
    await asyncio.gather(*tasks)
    assert went.index("first") < went.index("second")
    assert went[0] == "first"


def test_a_task_that_ends_the_loop_keeps_no_other_from_going_on() -> None:
    """KeyboardInterrupt leaves a task and the loop; `asyncio.run` then goes on with what is left."""
    went: list[int] = []
    tasks: list[asyncio.Future[None]] = []

    async def main() -> None:
        wakeups, waits = Wakeups(), futures(3)

        async def wait(number: int) -> None:
            await waits[number]
            went.append(number)
            if number == 0:
                raise KeyboardInterrupt

        tasks.extend(asyncio.ensure_future(wait(number)) for number in range(3))
        await asyncio.sleep(0)
        for each in waits:
            wakeups.fulfil(each)
        await asyncio.shield(asyncio.gather(*tasks[1:]))

    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(main())
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(task)
        loop.run_until_complete(task)
    finally:
        loop.close()
    assert went == [0, 1, 2]
    assert isinstance(tasks[0].exception(), KeyboardInterrupt)


async def test_gates_open_in_the_same_turn_of_the_loop() -> None:
    wakeups, (inner, middle, outer) = Wakeups(), futures(3)
    inner.add_done_callback(Opener(middle))
    middle.add_done_callback(Opener(outer))
    wakeups.fulfil(inner, "x")
    assert inner.result() == "x"
    assert middle.done()
    assert outer.done()


async def test_a_gate_that_is_gone_is_left_alone() -> None:
    wakeups, (wait, gate) = Wakeups(), futures(2)
    wait.add_done_callback(Opener(gate))
    gate.cancel()
    wakeups.fulfil(wait)
    assert gate.cancelled()


async def test_nested_calls_come_back_and_stop_through_every_gate() -> None:
    """Three nested calls on a store with slow answers: results go up, a cancellation goes down."""
    entered, left = asyncio.Event(), asyncio.Event()

    @tool
    async def inner(wait: bool = False) -> str:
        if wait:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
        return "inner"

    @tool
    async def middle(wait: bool = False) -> str:
        return f"middle {(await rt.call('inner', {'wait': wait})).output}"

    @tool
    async def outer(wait: bool = False) -> str:
        return f"outer {(await rt.call('middle', {'wait': wait})).output}"

    async with Runtime([inner, middle, outer], settings=Settings(store="memory://", cancel_grace=5)) as rt:
        assert (await rt.call("outer")).output == "outer middle inner"
        calling = asyncio.ensure_future(rt.call("outer", {"wait": True}, id="x"))
        await entered.wait()
        assert await rt.cancel("x")
        assert (await calling).state is State.CANCELLED
        assert left.is_set()
