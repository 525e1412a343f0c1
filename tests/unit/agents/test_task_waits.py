"""No task outlives the wait for it, however often the wait is cancelled."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from clicket.agents.task_waits import ended_before, wait_all


class Slow:
    """Takes time to end when it is cancelled."""

    def __init__(self) -> None:
        self.began, self.may_end, self.log = asyncio.Event(), asyncio.Event(), list[str]()

    async def run(self) -> None:
        try:
            self.began.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self.may_end.wait()
            self.log.append("recorded")
            raise


async def never(work: asyncio.Task[None]) -> None:
    await ended_before(asyncio.get_running_loop().create_future(), work)


@pytest.mark.parametrize("wait", [lambda work: wait_all([work]), never], ids=["wait_all", "ended_before"])
async def test_a_second_cancellation_does_not_leave_the_work_behind(
    wait: Callable[[asyncio.Task[None]], Coroutine[Any, Any, None]],
) -> None:
    slow = Slow()
    work = asyncio.ensure_future(slow.run())
    waiting = asyncio.ensure_future(wait(work))
    await slow.began.wait()
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
    assert not waiting.done()
    slow.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert slow.log == ["recorded"]


async def test_the_first_error_is_raised_when_all_have_ended() -> None:
    ended: list[str] = []

    async def fail() -> None:
        raise ValueError("no")

    async def go_on() -> None:
        await asyncio.sleep(0)
        ended.append("other")

    with pytest.raises(ValueError, match="no"):
        await wait_all([asyncio.ensure_future(fail()), asyncio.ensure_future(go_on())])
    assert ended == ["other"]


async def test_every_error_is_taken_from_its_task() -> None:
    """Else asyncio reports the others as never retrieved, with tracebacks, when the tasks are collected."""
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context)))

    async def fail(text: str) -> None:
        raise ValueError(text)

    async def fail_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("late")

    with pytest.raises(ValueError, match="first"):
        await wait_all([asyncio.ensure_future(fail(text)) for text in ("first", "second", "third")])
    for cancelled in (
        wait_all([asyncio.ensure_future(fail("ended")), asyncio.ensure_future(fail_when_cancelled())]),
        ended_before(asyncio.get_running_loop().create_future(), asyncio.ensure_future(fail_when_cancelled())),
    ):
        waiting = asyncio.ensure_future(cancelled)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    del cancelled, waiting
    gc.collect()
    assert reported == []
