"""The events of all calls from a server, as `Runtime.subscribe` gives them. A stream that breaks is opened again after the last event."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Self

from clicket.client.connection import Connection, Problem, Reconnection, ServerUnavailable, decoded
from clicket.model.text.server_sent_events import ServerSentEvent
from clicket.runtime.calls.subscription import CallEvent, EventFilter, Gap

__all__ = ["Subscription"]


class Subscription:
    """An async iterator of `CallEvent` and `Gap`. The request is sent by `async with`, or else before the first event is read."""

    def __init__(self, connection: Connection, filter: EventFilter, after: str | None = None) -> None:
        self._connection = connection
        self._query = {
            "thread": filter.thread,
            "tool": filter.tool,
            "id": filter.id,
            "caller": filter.caller,
            "types": None if filter.types is None else ",".join(sorted(filter.types)),
            "state": None if filter.states is None else ",".join(sorted(filter.states)),
        }
        self._last_id = after
        self._stream: AsyncExitStack | None = None
        self._events: AsyncIterator[ServerSentEvent] | None = None
        self._closed = False

    @property
    def cursor(self) -> str | None:
        """What `Client.subscribe(after=…)` takes to go on after the last event that was read; None: nothing was read."""
        return self._last_id

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
        reconnection = Reconnection()
        while not self._closed:
            try:
                if self._events is None:
                    await self._connect()
                assert self._events is not None
                async for event in self._events:
                    reconnection.reset()
                    found = self._read(event)
                    if found is not None:
                        return found
            except ServerUnavailable as error:
                await self._disconnect()
                reconnection.failed(error)
            await self._disconnect()
            await reconnection.wait()
        raise StopAsyncIteration

    def _read(self, event: ServerSentEvent) -> CallEvent | Gap | None:
        if event.type == "gap":
            self._last_id = event.id or self._last_id
            return Gap(None)
        if event.type == "shutdown":  # the stream ends now; the server that replaces this one goes on with it
            return None
        if event.type == "error":
            raise decoded(event.data, Problem).error()
        self._last_id = event.id or self._last_id
        return decoded(event.data, CallEvent)

    async def _connect(self) -> None:
        stream = AsyncExitStack()
        opened = self._connection.events("/events", query=self._query, last_id=self._last_id)
        self._stream, self._events = stream, await stream.enter_async_context(opened)

    async def _disconnect(self) -> None:
        stream, self._stream, self._events = self._stream, None, None
        if stream is not None:
            await stream.aclose()
