"""The notifier of a source wakes every reader, many of them in turns, with a pause after a long round."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.kit.waiting import PATIENCE

from clicket.server import event_stream
from clicket.server.event_stream import Notifier, Reader


class Listener(Reader):
    """A slow reader that records in which iteration of the loop it was woken."""

    def __init__(self, notifier: Notifier, turns: list[int], cost: float = 0.0) -> None:
        super().__init__({}, 0)
        self.notifier = notifier
        self.turns = turns
        self.cost = cost
        self.woken: list[int] = []

    async def listen(self, times: int) -> None:
        for _ in range(times):
            await self.wait(self.notifier)
            self.woken.append(self.turns[0])
            time.sleep(self.cost)  # what a send costs the loop


async def count_turns(turns: list[int]) -> None:
    while True:
        turns[0] += 1
        await asyncio.sleep(0)


async def test_a_lone_reader_is_woken_at_once_and_for_everything() -> None:
    notifier, turns = Notifier(), [0]
    one = Listener(notifier, turns)
    listening = asyncio.create_task(one.listen(3))
    async with asyncio.timeout(PATIENCE):
        for number in range(1, 4):
            while not notifier.waiters:
                await asyncio.sleep(0)
            notifier.notify()
            while len(one.woken) < number:
                await asyncio.sleep(0)
        await listening


async def test_a_crowd_is_woken_in_turns() -> None:
    notifier, turns = Notifier(), [0]
    crowd = [Listener(notifier, turns) for _ in range(event_stream._WOKEN_AT_ONCE * 4)]
    async with asyncio.timeout(PATIENCE):
        tasks = [asyncio.create_task(each.listen(1)) for each in crowd]
        await asyncio.sleep(0)
        counting = asyncio.create_task(count_turns(turns))
        notifier.notify()
        await asyncio.gather(*tasks)
        counting.cancel()
    woken = [each.woken[0] for each in crowd]
    assert max(woken.count(turn) for turn in woken) <= event_stream._WOKEN_AT_ONCE
    assert len(set(woken)) >= 4


async def test_after_a_long_waking_there_is_a_rest_and_nothing_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "_PAUSE", 25.0)  # half a second here
    notifier, turns = Notifier(), [0]
    crowd = [Listener(notifier, turns, cost=0.002) for _ in range(10)]
    async with asyncio.timeout(PATIENCE):
        tasks = [asyncio.create_task(each.listen(2)) for each in crowd]
        await asyncio.sleep(0)
        notifier.notify()
        while len(notifier.waiters) < 10 or not all(each.woken for each in crowd):
            await asyncio.sleep(0)
        notifier.notify()
        for _ in range(20):
            notifier.notify()
            await asyncio.sleep(0)
        assert all(len(each.woken) == 1 for each in crowd)
        await asyncio.gather(*tasks)
    assert all(len(each.woken) == 2 for each in crowd)
