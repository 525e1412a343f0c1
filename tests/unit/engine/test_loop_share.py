"""Calls that never wait yield to others: many callers continue in portions, in the order of their arrival."""

from __future__ import annotations

import asyncio
from itertools import count

from tests.kit.waiting import PATIENCE

from clicket.engine.local.loop_share import _CROWD, LoopShare


def breathless() -> LoopShare:
    """Each reading of the clock advances it by a second, so every time slice is over."""
    ticks = count()
    return LoopShare(lambda: float(next(ticks)))


class Turns:
    """Counts the iterations of the loop."""

    def __init__(self) -> None:
        self.number = 0
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_soon(self._next)

    def _next(self) -> None:
        self.number += 1
        self._handle = self._loop.call_soon(self._next)

    def stop(self) -> None:
        self._handle.cancel()


async def test_a_crowd_goes_on_in_portions_and_in_order() -> None:
    share, turns = breathless(), Turns()
    went: list[tuple[int, int]] = []

    async def caller(number: int) -> None:
        await share.yield_to_loop()
        went.append((number, turns.number))

    await asyncio.gather(*(caller(number) for number in range(10 * _CROWD)))
    turns.stop()
    assert [number for number, _ in went] == list(range(10 * _CROWD))
    times = [turn for _, turn in went]
    assert max(times.count(turn) for turn in set(times)) <= 2 * _CROWD  # the earlier ones, and the first of the queue


async def test_a_few_lose_no_more_than_one_turn() -> None:
    share, turns = breathless(), Turns()

    async def caller() -> int:
        before = turns.number
        await share.yield_to_loop()
        return turns.number - before

    assert await asyncio.gather(*(caller() for _ in range(_CROWD))) == [1] * _CROWD
    turns.stop()


async def test_a_waiter_that_leaves_the_queue_delays_no_other() -> None:
    share = breathless()
    callers = [asyncio.ensure_future(share.yield_to_loop()) for _ in range(4 * _CROWD)]
    await asyncio.sleep(0)
    for left in callers[_CROWD::2]:
        left.cancel()
    ends = await asyncio.wait_for(asyncio.gather(*callers, return_exceptions=True), PATIENCE)
    assert [isinstance(end, asyncio.CancelledError) for end in ends[_CROWD::2]] == [True] * len(ends[_CROWD::2])
    assert set(ends[:_CROWD]) | set(ends[_CROWD + 1 :: 2]) == {None}


async def test_within_one_slice_nothing_waits() -> None:
    share, turns = LoopShare(lambda: 0.0), Turns()
    await share.yield_to_loop()  # the first one starts the time slice
    before = turns.number
    for _ in range(100):
        await share.yield_to_loop()
    turns.stop()
    assert turns.number == before
