"""What goes over a connection after its login: bytes out, replies back. Replies are parsed where the loop delivers their bytes, so no
task has to be woken up for each piece; redis-py's reader wakes one for each line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from clicket.stores.redis.replies import Replies
from clicket.system.bridge import fulfil

__all__ = ["Line", "OnAnswer", "OnReply"]

OnAnswer = Callable[[list[Any], Exception | None], None]
"""Called on the loop with the replies to a question, or with the reason why they do not come. It must not raise."""
OnReply = Callable[[Any], None]
"""Called on the loop for each reply that no question waits for."""


class Line(asyncio.Protocol):
    """One question at a time: some commands, and as many replies. `error(text)` makes an error that the server sent, or raises one
    that concerns the whole connection."""

    def __init__(self, transport: asyncio.Transport, error: Callable[[str], Exception]) -> None:
        self.on_reply: OnReply | None = None
        self.lost: Exception | None = None
        """Why nothing more comes; None: the line is open."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._replies = Replies(error)
        self._on_answer: OnAnswer | None = None
        self._found: list[Any] = []
        self._count = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._watchers: list[asyncio.Future[None]] = []
        transport.set_protocol(self)
        transport.resume_reading()  # the reader that was there before may have paused it

    @property
    def is_free(self) -> bool:
        """The line is open, and no question is under way."""
        return self.lost is None and self._on_answer is None

    def ask(self, data: bytes, count: int, timeout: float) -> asyncio.Future[list[Any]]:
        """Send commands. The future gets their `count` replies, or an error; `TimeoutError` if they do not come in time."""
        answer: asyncio.Future[list[Any]] = self._loop.create_future()
        self.send(data, count, timeout, partial(fulfil, answer))
        return answer

    def send(self, data: bytes, count: int, timeout: float, on_answer: OnAnswer) -> None:
        """As `ask`, without a task that waits: `on_answer` is called where the replies arrive."""
        assert self._on_answer is None, "one question at a time"
        if self.lost is not None:
            on_answer([], self.lost)
            return
        self._on_answer = on_answer
        self._found = []
        self._count = count
        self._due = self._loop.time() + timeout
        timer = self._timer  # one for many questions: it looks again when it is early
        if timer is None or timer.when() > self._due:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(self._due, self._look_at_clock)
        self._transport.write(data)

    def say(self, data: bytes) -> None:
        """Send commands whose replies go to `on_reply`."""
        if self.lost is None:
            self._transport.write(data)

    async def stays(self, seconds: float) -> None:
        """Wait this many seconds. Raises why the line was lost, if it is lost by then."""
        if self.lost is None:
            watcher: asyncio.Future[None] = self._loop.create_future()
            self._watchers.append(watcher)
            try:
                await asyncio.wait([watcher], timeout=seconds)
            finally:
                if watcher in self._watchers:
                    self._watchers.remove(watcher)
        if self.lost is not None:
            raise self.lost

    def data_received(self, data: bytes) -> None:
        try:
            found = self._replies.feed(data)
        except Exception as error:
            self.end(error)
            self._transport.abort()
            return
        on_answer = self._on_answer
        if on_answer is not None:
            missing = self._count - len(self._found)
            self._found += found[:missing]
            if len(self._found) < self._count:
                return
            self._on_answer = None
            on_answer(self._found, None)  # which may send the next question
            found = found[missing:]
        if self.on_reply is not None:
            for reply in found:
                self.on_reply(reply)

    def eof_received(self) -> None:
        self.end(ConnectionResetError("the server closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(exc or ConnectionResetError("the server closed the connection"))

    def _look_at_clock(self) -> None:
        self._timer = None
        if self._on_answer is None:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._look_at_clock)
        else:
            self.end(TimeoutError())

    def end(self, why: Exception) -> None:
        """Nothing more is expected from the line."""
        if self.lost is None:
            self.lost = why
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer([], why)
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)
