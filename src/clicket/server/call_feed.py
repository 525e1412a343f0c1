"""The events of one call as frames, for all its readers in this process. One task follows the call for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from clicket.errors import ClicketError
from clicket.model import Event
from clicket.model.codec import encode
from clicket.server.event_stream import Notifier, Reader, frame, some
from clicket.server.problems import detail_of

__all__ = ["CallFeed", "CallFeeds", "Followed"]

logger = logging.getLogger("clicket.server")


class Followed(Protocol):
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

    def __init__(self, handle: Followed) -> None:
        self.notifier = Notifier()
        self.readers = 0
        self.ended = asyncio.Event()
        self._frames: list[bytes] = []
        self._tail = b""
        self._task = asyncio.get_running_loop().create_task(self._follow(handle))

    @property
    def last(self) -> int:
        return len(self._frames)

    def take(self, reader: Reader) -> tuple[bytes, bool]:
        frames = some(self._frames, reader.place)
        reader.place += len(frames)
        over = self.ended.is_set() and reader.place >= len(self._frames)
        return b"".join(frames) + (self._tail if over else b""), over

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _follow(self, handle: Followed) -> None:
        try:
            async for event in handle.events(after=0):
                self._frames.append(frame(str(event.seq), event.type, encode(event)))
                self.notifier.notify()
        except ClicketError as error:
            self._tail = frame(
                "", "error", encode({"code": error.code, "detail": detail_of(error.code, error.message)})
            )
        except Exception:
            logger.exception("the events of call %s could not be followed", handle.id)
            self._tail = frame(
                "", "error", encode({"code": "internal", "detail": "the server's log says what happened."})
            )
        finally:
            self.ended.set()
            self.notifier.notify()


class CallFeeds:
    """The calls that are being read, by caller, thread and id."""

    def __init__(self) -> None:
        self._feeds: dict[tuple[str, str, str], CallFeed] = {}

    @asynccontextmanager
    async def reading(self, handle: Followed) -> AsyncIterator[CallFeed]:
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
