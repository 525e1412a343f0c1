"""Sources of event streams that follow one call or one thread of an agent, each with a task of its own.

`CallFeed` serves all readers of a call in this process and keeps all its frames. `FrameFeed` serves one reader and follows its
source no faster than that reader reads, so its memory is bounded; `AgentFeed` is one of an agent's events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

from clicket.agents import AgentEvent
from clicket.errors import ClicketError
from clicket.model import Event
from clicket.model.codec import encode
from clicket.server.event_stream import MAX_CHUNK, Notifier, Reader, frame
from clicket.server.problems import detail_of
from clicket.server.shutdown import end_task

__all__ = ["AgentFeed", "CallEvents", "CallFeed", "CallFeeds", "FrameFeed", "client_error"]

logger = logging.getLogger("clicket.server")
_MAX_PENDING = 256 * 1024


class CallEvents(Protocol):
    """A handle of a call."""

    @property
    def id(self) -> str: ...
    @property
    def thread(self) -> str: ...
    @property
    def caller(self) -> str: ...
    def events(self, after: int = 0) -> AsyncIterator[Event]: ...


class CallFeed:
    """Frame n is event n + 1. It is closed when its last reader leaves."""

    def __init__(self, handle: CallEvents) -> None:
        self.notifier = Notifier()
        self.readers = 0
        self.ended = asyncio.Event()
        self._frames: list[bytes] = []
        self._error = b""
        self._task = asyncio.get_running_loop().create_task(self._follow(handle))

    @property
    def last(self) -> int:
        return len(self._frames)

    def take(self, reader: Reader) -> tuple[bytes, bool]:
        frames: list[bytes] = []
        size = 0
        while reader.position < len(self._frames) and size < MAX_CHUNK:
            frames.append(self._frames[reader.position])
            size += len(frames[-1])
            reader.position += 1
        over = self.ended.is_set() and reader.position >= len(self._frames)
        return b"".join(frames) + (self._error if over else b""), over

    async def close(self) -> None:
        await end_task(self._task)

    async def _follow(self, handle: CallEvents) -> None:
        try:
            async for event in handle.events(after=0):
                self._frames.append(frame(str(event.seq), event.type, encode(event)))
                self.notifier.notify()
        except Exception as error:
            self._error = _error_frame("error", error)
        finally:
            self.ended.set()
            self.notifier.notify()


class CallFeeds:
    """The calls that are being read, by caller, thread and id."""

    def __init__(self) -> None:
        self._feeds: dict[tuple[str, str, str], CallFeed] = {}

    @asynccontextmanager
    async def reading(self, handle: CallEvents) -> AsyncIterator[CallFeed]:
        name = (handle.caller, handle.thread, handle.id)
        feed = self._feeds.get(name)
        if feed is None or feed.ended.is_set():  # a late result may have come after the end
            feed = self._feeds[name] = CallFeed(handle)
        feed.readers += 1
        try:
            yield feed
        finally:
            feed.readers -= 1
            if feed.readers == 0:
                if self._feeds.get(name) is feed:
                    del self._feeds[name]
                await feed.close()


class FrameFeed:
    """Follows `items` to their end; `frame` makes a frame of each. `first` was taken from them before. `broken` makes the last frame
    of a stream that cannot go on."""

    def __init__(
        self,
        items: AsyncIterator[Any],
        frame: Callable[[Any], bytes],
        broken: Callable[[Exception], bytes],
        first: Any = None,
    ) -> None:
        self.notifier = Notifier()
        self.ended = False
        """The last frame was made."""
        self._frame = frame
        self._broken = broken
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._has_room = asyncio.Event()
        if first is not None:
            self._add(frame(first))
        self._task = asyncio.get_running_loop().create_task(self._follow(items))

    def take(self, reader: Reader) -> tuple[bytes, bool]:
        frames: list[bytes] = []
        size = 0
        while self._frames and size < MAX_CHUNK:
            frames.append(self._frames.popleft())
            size += len(frames[-1])
        self._size -= size
        if self._size < _MAX_PENDING:
            self._has_room.set()
        return b"".join(frames), self.ended and not self._frames

    async def close(self) -> None:
        await end_task(self._task)

    async def _follow(self, items: Any) -> None:
        try:
            async for item in items:
                self._add(self._frame(item))
                while self._size >= _MAX_PENDING:
                    self._has_room.clear()
                    await self._has_room.wait()
            self.ended = True
        except Exception as error:  # of the stream: an error of the turn is an event of the agent
            self._add(self._broken(error))
            self.ended = True
        finally:
            self.notifier.notify()
            await items.aclose()

    def _add(self, data: bytes) -> None:
        self._frames.append(data)
        self._size += len(data)
        self.notifier.notify()


class AgentFeed(FrameFeed):
    """The events of an agent."""

    def __init__(self, events: AsyncIterator[AgentEvent], first: AgentEvent | None = None) -> None:
        super().__init__(events, _agent_frame, partial(_error_frame, "broken"), first)


def _agent_frame(event: AgentEvent) -> bytes:
    return frame(event.id, event.type, encode(event))


def _error_frame(type: str, error: Exception) -> bytes:
    """The last frame of a stream that cannot go on."""
    code, detail = client_error(error)
    return frame("", type, encode({"code": code, "detail": detail}))


def client_error(error: Exception) -> tuple[str, str]:
    """Code and text of an error for a client. An unexpected error is logged, and its text is not sent."""
    if isinstance(error, ClicketError):
        return error.code, detail_of(error.code, error.message)
    logger.error("a stream of events failed", exc_info=error)
    return "internal", "the server's log says what happened."
