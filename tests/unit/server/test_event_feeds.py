"""The feed of an agent: frames in order, not far ahead of the reader, and a last frame with the reason if a stream breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from clicket.agents import AgentEvent
from clicket.errors import StoreUnavailable
from clicket.server.event_feeds import AgentFeed
from clicket.server.event_stream import Reader


def event(number: int, size: int = 10) -> AgentEvent:
    return AgentEvent(type="message", thread="t", turn=1, at=0.0, id=f"1-{number}.1", data={"text": "x" * size})


class Source:
    """Events without end; counts those that were taken, and records whether it was closed."""

    def __init__(self, size: int = 10, last: int | None = None, error: Exception | None = None) -> None:
        self.taken = 0
        self.closed = False
        self._size, self._last, self._error = size, last, error

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        try:
            while self._last is None or self.taken < self._last:
                self.taken += 1
                yield event(self.taken, self._size)
                await asyncio.sleep(0)
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True


async def spin() -> None:
    for _ in range(500):
        await asyncio.sleep(0)


async def drained(feed: AgentFeed) -> list[str]:
    reader, whole, over = Reader({}, 0), b"", False
    while not over:
        data, over = feed.take(reader)
        whole += data
        await asyncio.sleep(0)
    return [line[4:] for line in whole.decode().splitlines() if line.startswith("id: ")]


async def test_order_is_kept_and_the_first_comes_first() -> None:
    source: Any = Source(last=200)
    feed = AgentFeed(source.events(), event(0))
    assert await drained(feed) == [f"1-{number}.1" for number in range(201)]
    assert source.closed


async def test_it_is_not_followed_faster_than_it_is_read() -> None:
    source, reader = Source(size=10_000), Reader({}, 0)
    feed = AgentFeed(source.events())
    await spin()
    assert 20 < source.taken < 40, "a quarter of a megabyte, and no more"
    taken = source.taken
    for _ in range(10):
        feed.take(reader)
    await spin()
    assert source.taken > taken, "reading frees space for more"
    await feed.close()
    assert source.closed


async def test_a_stream_that_breaks_says_why() -> None:
    for error, said in (
        (StoreUnavailable("sqlite:///secret/place is gone"), b"store_unavailable"),
        (ValueError("x"), b"internal"),
    ):
        feed = AgentFeed(Source(last=2, error=error).events())
        await spin()
        data, over = feed.take(Reader({}, 0))
        assert over
        assert b"event: broken\n" in data
        assert said in data
        assert b"secret/place" not in data, "only the log contains the store's address"
