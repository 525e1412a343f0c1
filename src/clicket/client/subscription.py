"""All calls' events from a server, as `Runtime.subscribe` gives them. A stream that breaks is taken up where it broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Self

from clicket.client.wire import Problem, ServerUnavailable, Wire, decoded
from clicket.subscription import CallEvent, EventFilter, Gap

__all__ = ["Subscription"]

_AGAIN_FIRST = 0.05
_AGAIN_MOST = 2.0
_TRIES = 8
_Frame = tuple[str, str, str]
"""Id, kind, data."""


class Subscription:
    """An async iterator of `CallEvent` and `Gap`. It begins with `async with`, or else with the first event that is asked for."""

    def __init__(self, wire: Wire, filter: EventFilter) -> None:
        self._wire = wire
        self._query = {
            "thread": filter.thread,
            "tool": filter.tool,
            "id": filter.id,
            "caller": filter.caller,
            "types": None if filter.types is None else ",".join(sorted(filter.types)),
        }
        self._last: str | None = None
        self._stream: AsyncExitStack | None = None
        self._frames: AsyncIterator[_Frame] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the subscription."""
        self._closed = True
        await self._disconnect()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CallEvent | Gap:
        failures, delay = 0, _AGAIN_FIRST
        while not self._closed:
            try:
                if self._frames is None:
                    await self._connect()
                assert self._frames is not None
                async for id, kind, data in self._frames:
                    failures, delay = 0, _AGAIN_FIRST
                    found = self._read(id, kind, data)
                    if found is not None:
                        return found
            except ServerUnavailable:
                failures += 1
                if failures >= _TRIES:
                    await self._disconnect()
                    raise
            await self._disconnect()
            await asyncio.sleep(delay)
            delay = min(delay * 2, _AGAIN_MOST)
        raise StopAsyncIteration

    def _read(self, id: str, kind: str, data: str) -> CallEvent | Gap | None:
        if kind == "gap":
            return Gap(None)
        if kind == "shutdown":  # the stream ends now; another server, or the same one again, may take it up
            return None
        if kind == "error":
            raise decoded(data.encode(), Problem).error()
        self._last = id or self._last
        return decoded(data.encode(), CallEvent)

    async def _connect(self) -> None:
        headers = {"accept": "text/event-stream"}
        if self._last is not None:
            headers["last-event-id"] = self._last
        stream = AsyncExitStack()
        lines = await stream.enter_async_context(self._wire.lines("/events", query=self._query, headers=headers))
        self._stream, self._frames = stream, _frames(lines)

    async def _disconnect(self) -> None:
        stream, self._stream, self._frames = self._stream, None, None
        if stream is not None:
            await stream.aclose()


async def _frames(lines: AsyncIterator[str]) -> AsyncIterator[_Frame]:
    """Server-sent events, comments aside."""
    fields: dict[str, str] = {}
    async for line in lines:
        if not line:
            if "data" in fields:
                yield fields.get("id", ""), fields.get("event", ""), fields["data"]
            fields = {}
        else:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
