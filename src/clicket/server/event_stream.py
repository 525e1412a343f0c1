"""Streams of events to many clients, as server-sent events or as lines of JSON. A slow client delays no other; a client that stops
reading is dropped.

A source encodes an event once for all its readers. A reader holds only its position in the source, so a thousand readers cost a
thousand numbers. One timer serves all of them: it sends heartbeats and finds clients that stall.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from clicket.server.request import Request
from clicket.server.responses import AlreadySent, abort
from clicket.server.revocation import RevocationWatch
from clicket.server.shutdown import end_task

__all__ = ["JSON_LINES", "MAX_CHUNK", "EventStreams", "Notifier", "Reader", "Source", "as_lines", "frame"]

JSON_LINES = "application/x-ndjson"

_EVENT_STREAM = (b"content-type", b"text/event-stream; charset=utf-8")
_LINES = (b"content-type", JSON_LINES.encode())
_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]
_HEARTBEAT = b": heartbeat\n\n"
_SHUTDOWN = b"event: shutdown\ndata: {}\n\n"
_UNAUTHORIZED = b'event: error\ndata: {"code":"unauthorized","detail":"the key was revoked, or its time is over."}\n\n'
MAX_CHUNK = 64 * 1024
"""A source gives frames until they have this many bytes together."""
_WOKEN_AT_ONCE = 25
_SHORT = 0.002
_PAUSE = 3.0
"""The pause after waking all readers, as a multiple of the time that it took, if that was over `_SHORT` seconds. So waking
readers takes a quarter of the loop's time at most."""
_TICKS = 4
"""Checks of the timer per heartbeat or stall timeout."""


def frame(id: str, event: str, data: bytes) -> bytes:
    """One server-sent event. `data` is JSON, which has no raw line breaks."""
    head = f"id: {id}\n" if id else ""
    return b"%sevent: %s\ndata: %s\n\n" % (head.encode(), event.encode(), data)


def as_lines(frames: bytes) -> bytes:
    """Server-sent events as lines of JSON: their data, with the id as `cursor`, and the name as `type` where the data has none. A comment
    becomes a line with its text as `type`."""
    lines: list[bytes] = []
    for each in frames.split(b"\n\n"):
        if each.startswith(b": "):
            lines.append(b'{"type":"%s"}\n' % each[2:])
        elif each:
            fields = dict(field.split(b": ", 1) for field in each.split(b"\n"))
            data = fields[b"data"]
            name = fields[b"event"]
            id = fields.get(b"id")
            own = [] if b'"seq":' in data and b'"call_id":' in data else [b'"type":"%s"' % name]
            cursor = [] if id is None else [b'"cursor":"%s"' % id]
            rest = [] if data == b"{}" else [data[1:-1]]
            lines.append(b"{%s}\n" % b",".join([*own, *cursor, *rest]))
    return b"".join(lines)


class Source(Protocol):
    """Where a reader's frames come from."""

    def take(self, reader: Reader) -> tuple[bytes, bool]:
        """The next frames of a reader, and whether these are the last. Moves the reader's position."""
        ...

    notifier: Notifier
    """Wakes readers that wait for more frames."""


class Reader:
    """One client of a stream. `sees`: which events it is sent, for sources that ask; None: all. `encode`: what it is sent in place of
    server-sent events."""

    __slots__ = (
        "_wake",
        "disconnected",
        "encode",
        "is_unauthorized",
        "last_sent_at",
        "position",
        "scope",
        "sees",
        "sending_since",
    )

    def __init__(
        self,
        scope: Any,
        position: int,
        sees: Callable[..., bool] | None = None,
        *,
        encode: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.scope = scope
        self.encode = encode
        self.position = position
        self.sees = sees
        self.disconnected = False
        self.is_unauthorized = False
        self.last_sent_at = 0.0
        self.sending_since: float | None = None
        self._wake: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def end_unauthorized(self) -> None:
        """Its key is no longer valid: the stream ends with an error."""
        self.is_unauthorized = True
        self.wake()

    async def wait(self, notifier: Notifier) -> None:
        self._wake = asyncio.get_running_loop().create_future()
        notifier.waiters[self] = None
        try:
            await self._wake
        finally:
            notifier.waiters.pop(self, None)
            self._wake = None


class Notifier:
    """Wakes the readers that wait for a source, a few at a time, so that other tasks run in between. If waking all of them took long,
    a pause follows: then each reader gets several events at once, and most of the loop's time is left for calls."""

    def __init__(self) -> None:
        self.waiters: dict[Reader, None] = {}
        """In the order in which they began to wait."""
        self._notified = False
        self._next: asyncio.Handle | None = None
        self._left: list[Reader] = []
        self._spent = 0.0
        self._since = 0.0

    def notify(self) -> None:
        """The source has new frames."""
        self._notified = True
        if self._next is None:
            self._begin()

    def _begin(self) -> None:
        self._next = None
        if self._notified:
            self._notified, self._left, self._spent = False, list(self.waiters), 0.0
            self._wake_some()

    def _wake_some(self) -> None:
        some, self._left = self._left[:_WOKEN_AT_ONCE], self._left[_WOKEN_AT_ONCE:]
        for reader in some:
            reader.wake()
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        self._next = loop.call_soon(self._woken)  # runs after the readers that were woken

    def _woken(self) -> None:
        loop = asyncio.get_running_loop()
        self._spent += loop.time() - self._since
        if self._left:
            self._wake_some()
        elif self._spent < _SHORT:
            self._begin()
        else:
            self._next = loop.call_later(_PAUSE * self._spent, self._begin)


class EventStreams:
    """All open streams of a server, and the timer that serves them. Times are seconds."""

    def __init__(self, revocation: RevocationWatch, *, heartbeat: float, stall: float) -> None:
        self.heartbeat = heartbeat
        self.stall = stall
        self._revocation = revocation
        self.open: dict[Reader, None] = {}
        self.dropped = 0
        self.closing = False
        self._timer: asyncio.TimerHandle | None = None

    def wake_all(self) -> None:
        """The server shuts down: every stream ends with `event: shutdown`."""
        self.closing = True
        for reader in self.open:
            reader.wake()

    def stop(self) -> None:
        self.wake_all()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def send(
        self,
        request: Request,
        source: Source,
        after: int = 0,
        sees: Callable[..., bool] | None = None,
        *,
        lines: bool = False,
        first: bytes = b": stream\n\n",
        on_shutdown: bytes = _SHUTDOWN,
        on_unauthorized: bytes = _UNAUTHORIZED,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> AlreadySent:
        """Send a source from position `after` on, until it ends, the client leaves, its key is revoked, or the server shuts down.

        `lines`: as lines of JSON. `first`: the first frame; with it the headers go out before the first event. `on_shutdown` and
        `on_unauthorized`: the last frame, if the server shuts down or the key is revoked. `headers`: more of the response.
        """
        loop = asyncio.get_running_loop()
        send = request.send
        reader = Reader(request.scope, after, sees, encode=as_lines if lines else None)
        reader.last_sent_at = loop.time()
        reader.scope["clicket.started"] = True
        self.open[reader] = None
        if self._timer is None:
            self._tick()
        leaving = loop.create_task(_wait_for_disconnect(reader, request.receive))
        try:
            with self._revocation.over(request.scope, reader.end_unauthorized):
                whole = [_LINES if lines else _EVENT_STREAM, *_HEADERS, *headers]
                await self._send(reader, send, {"type": "http.response.start", "status": 200, "headers": whole})
                await self._send_frames(reader, send, first)
                await self._run(reader, source, send, (on_shutdown, on_unauthorized))
                if not reader.disconnected:
                    await self._send(reader, send, {"type": "http.response.body", "body": b""})
        finally:
            self.open.pop(reader, None)
            await end_task(leaving)
        return AlreadySent()

    async def _run(self, reader: Reader, source: Source, send: Any, last_frames: tuple[bytes, bytes]) -> None:
        loop = asyncio.get_running_loop()
        in_a_row = 0
        while not reader.disconnected:
            if reader.is_unauthorized:
                await self._send_frames(reader, send, last_frames[1])
                return
            data, last = source.take(reader)
            if data:
                await self._send_frames(reader, send, data)
                reader.last_sent_at = loop.time()
                if not last:
                    in_a_row += 1
                    if in_a_row > 1:  # it is far behind: let other tasks run, and a disconnect be noticed
                        await asyncio.sleep(0)
                    continue
            if last:
                return
            if self.closing:
                await self._send_frames(reader, send, last_frames[0])
                return
            if loop.time() - reader.last_sent_at >= self.heartbeat:
                await self._send_frames(reader, send, _HEARTBEAT)
                reader.last_sent_at = loop.time()
            in_a_row = 0
            await reader.wait(source.notifier)

    async def _send_frames(self, reader: Reader, send: Any, frames: bytes) -> None:
        await self._send(reader, send, _part(frames if reader.encode is None else reader.encode(frames)))

    async def _send(self, reader: Reader, send: Any, message: Any) -> None:
        """Wait until the client has taken the message. The timer drops a client that does not take it."""
        reader.sending_since = asyncio.get_running_loop().time()
        await send(message)
        reader.sending_since = None

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for reader in list(self.open):
            if reader.sending_since is not None and now - reader.sending_since > self.stall:
                self.dropped += 1
                reader.disconnected = True
                reader.sending_since = None
                abort(reader.scope)
            elif now - reader.last_sent_at >= self.heartbeat:
                reader.wake()
        if self.open:
            self._timer = loop.call_later(min(self.heartbeat, self.stall) / _TICKS, self._tick)
        else:
            self._timer = None


def _part(data: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def _wait_for_disconnect(reader: Reader, receive: Any) -> None:
    """Notices that the client disconnects, also while there is nothing to send."""
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.disconnected = True
    reader.wake()
