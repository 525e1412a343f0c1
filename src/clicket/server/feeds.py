"""The events of one call as frames, for all who read it here. One task follows the call, however many readers there are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from clicket.engine import CallHandle
from clicket.errors import ClicketError
from clicket.model.codec import encode
from clicket.server.problems import detail_of
from clicket.server.readers import Bell, Reader, frame, some

__all__ = ["Feed", "Feeds"]

logger = logging.getLogger("clicket.server")


class Feed:
    """Frame n is event n + 1. It lives while somebody reads it."""

    def __init__(self, handle: CallHandle) -> None:
        self.bell = Bell()
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

    async def _follow(self, handle: CallHandle) -> None:
        try:
            async for event in handle.events(after=0):
                self._frames.append(frame(str(event.seq), event.type, encode(event)))
                self._tell()
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
            self._tell()

    def _tell(self) -> None:
        self.bell.ring()


class Feeds:
    """The calls that are being read, by caller, thread and id."""

    def __init__(self) -> None:
        self._feeds: dict[tuple[str, str, str], Feed] = {}

    @asynccontextmanager
    async def reading(self, handle: CallHandle) -> AsyncIterator[Feed]:
        name = (handle.caller, handle.thread, handle.id)
        feed = self._feeds.get(name)
        if feed is None or feed.ended.is_set():  # a late result may have come after the end
            feed = self._feeds[name] = Feed(handle)
        feed.readers += 1
        try:
            yield feed
        finally:
            feed.readers -= 1
            if feed.readers == 0:
                if self._feeds.get(name) is feed:
                    del self._feeds[name]
                await feed.close()
