"""An agent's events as frames for one reader. The feed follows the agent no faster than its reader reads, so its memory is bounded."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from clicket.agents import AgentEvent
from clicket.errors import ClicketError
from clicket.model.codec import encode
from clicket.server.event_stream import Notifier, Reader, frame
from clicket.server.problems import detail_of

__all__ = ["AgentFeed"]

logger = logging.getLogger("clicket.server")
_MOST_WAITING = 256 * 1024
_MOST_AT_ONCE = 64 * 1024


class AgentFeed:
    """`events` are followed by a task until they end; `first` was taken from them before."""

    def __init__(self, events: AsyncIterator[AgentEvent], first: AgentEvent | None = None) -> None:
        self.notifier = Notifier()
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._room = asyncio.Event()
        self._ended = False
        if first is not None:
            self._add(_framed(first))
        self._task = asyncio.get_running_loop().create_task(self._follow(events))

    def take(self, reader: Reader) -> tuple[bytes, bool]:
        parts: list[bytes] = []
        size = 0
        while self._frames and size < _MOST_AT_ONCE:
            parts.append(self._frames.popleft())
            size += len(parts[-1])
        self._size -= size
        if self._size < _MOST_WAITING:
            self._room.set()
        return b"".join(parts), self._ended and not self._frames

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _follow(self, events: Any) -> None:
        try:
            async for event in events:
                self._add(_framed(event))
                while self._size >= _MOST_WAITING:
                    self._room.clear()
                    await self._room.wait()
        except ClicketError as error:
            self._add(_broken(error.code, detail_of(error.code, error.message)))
        except Exception:
            logger.exception("the events of an agent could not be followed")
            self._add(_broken("internal", "the server's log says what happened."))
        finally:
            self._ended = True
            self.notifier.notify()
            await events.aclose()

    def _add(self, data: bytes) -> None:
        self._frames.append(data)
        self._size += len(data)
        self.notifier.notify()


def _framed(event: AgentEvent) -> bytes:
    return frame(event.id, event.type, encode(event))


def _broken(code: str, detail: str) -> bytes:
    """The stream breaks off here. It says nothing about the turn: an error of that is an event of the agent's own."""
    return frame("", "broken", encode({"code": code, "detail": detail}))
