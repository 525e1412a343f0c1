"""Calls that never wait let others run: a crowd of callers goes on in portions, in the order in which it came."""

from __future__ import annotations

import asyncio
from itertools import count
from types import SimpleNamespace
from typing import Any

from clicket.engine.conduct import _CROWD, Conductor


def breathless() -> Conductor:
    """Time runs a second each time that somebody looks: the breath of a turn is always over."""
    ticks = count()
    engine: Any = SimpleNamespace(clock=SimpleNamespace(monotonic=lambda: float(next(ticks))))
    return Conductor(engine)


class Turns:
    """Counts the turns of the loop."""

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
    conductor, turns = breathless(), Turns()
    went: list[tuple[int, int]] = []

    async def caller(number: int) -> None:
        await conductor.breathe()
        went.append((number, turns.number))

    await asyncio.gather(*(caller(number) for number in range(10 * _CROWD)))
    turns.stop()
    assert [number for number, _ in went] == list(range(10 * _CROWD))
    times = [turn for _, turn in went]
    assert (
        max(times.count(turn) for turn in set(times)) <= 2 * _CROWD
    )  # those who came first, and the first of the line


async def test_a_few_lose_no_more_than_one_turn() -> None:
    conductor, turns = breathless(), Turns()

    async def caller() -> int:
        before = turns.number
        await conductor.breathe()
        return turns.number - before

    assert await asyncio.gather(*(caller() for _ in range(_CROWD))) == [1] * _CROWD
    turns.stop()


async def test_who_leaves_the_line_holds_nobody_up() -> None:
    conductor = breathless()
    callers = [asyncio.ensure_future(conductor.breathe()) for _ in range(4 * _CROWD)]
    await asyncio.sleep(0)
    for left in callers[_CROWD::2]:
        left.cancel()
    ends = await asyncio.wait_for(asyncio.gather(*callers, return_exceptions=True), 30)
    assert [isinstance(end, asyncio.CancelledError) for end in ends[_CROWD::2]] == [True] * len(ends[_CROWD::2])
    assert set(ends[:_CROWD]) | set(ends[_CROWD + 1 :: 2]) == {None}


async def test_within_a_breath_nobody_waits() -> None:
    engine: Any = SimpleNamespace(clock=SimpleNamespace(monotonic=lambda: 0.0))
    conductor, turns = Conductor(engine), Turns()
    await conductor.breathe()  # the first one opens the breath
    before = turns.number
    for _ in range(100):
        await conductor.breathe()
    turns.stop()
    assert turns.number == before
