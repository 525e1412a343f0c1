"""uvicorn's HTTP/1.1 protocol with limits: of the size of headers, of the time until they are complete, and of connections.

At the limit of connections, a new one replaces the one that has been idle for longest. It is refused only if all have a request
under way, so idle connections cannot block the server.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clicket.server.options import Options
from clicket.server.problems import PROBLEM_JSON, Problem

__all__ = ["protocol_with"]


def _canned(status: str, code: str, detail: str) -> bytes:
    number = int(status[:3])
    body = msgspec.json.encode(
        Problem(type=f"urn:clicket:problem:{code}", title=status[4:], status=number, detail=detail, code=code)
    )
    head = b"HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n" % (
        status.encode(), PROBLEM_JSON, len(body),
    )  # fmt: skip
    retry = b"retry-after: 2\r\n" if number == 503 else b""
    return head + retry + b"\r\n" + body


_TOO_LONG = _canned("431 Request Header Fields Too Large", "too_large", "the request's head is too long. Send less.")
_TOO_SLOW = _canned("408 Request Timeout", "request_timeout", "the request's head came too slowly.")
_TOO_MANY = _canned(
    "503 Service Unavailable", "too_many_connections", "too many connections are open. Try again later."
)


class BoundedHttpProtocol(HttpToolsProtocol):
    options: ClassVar[Options]
    idle: ClassVar[dict[BoundedHttpProtocol, None]]
    """Idle connections, without a request under way; the one that has been idle for longest first."""
    _head = 0
    _in_head = True
    _refused = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.options.max_connections and not self._make_room():
            self._refuse(_TOO_MANY)
        else:
            self.idle[self] = None
            self._head_timer = self.loop.call_later(self.options.header_timeout, self._slow)

    def _make_room(self) -> bool:
        """Close the connection that has been idle for longest, if there is one."""
        longest = next(iter(self.idle), None)
        if longest is None:
            return False
        del self.idle[longest]
        longest._refused = True
        longest._stop_timer()
        longest.transport.close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.idle.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._head += len(data)
            # The last chunk of the headers may contain a part of the body; the chunks before it do not.
            if self._head - len(data) > self.options.max_header_size:
                self._refuse(_TOO_LONG)
                return
        super().data_received(data)
        if self._in_head and self._head and not self._refused:
            if self._head > self.options.max_header_size:
                self._refuse(_TOO_LONG)
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(self.options.header_timeout, self._slow)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self.idle.pop(self, None)
        self._in_head = False
        fields = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if fields + len(self.url) > self.options.max_header_size:
            self._refuse(_TOO_LONG)
            return
        self.scope["clicket.transport"] = self.transport  # type: ignore[typeddict-unknown-key]  # for `abort`
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._head = True, 0
        if not self._refused:
            self.scope["clicket.whole"] = True  # type: ignore[typeddict-unknown-key]  # read by `request_body`: no timeout is needed
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.idle[self] = None

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _slow(self) -> None:
        self._head_timer = None
        if self._head:
            self._refuse(_TOO_SLOW)
        elif not self.transport.is_closing():
            self.transport.close()  # it never sent anything

    def _refuse(self, answer: bytes) -> None:
        """Send an error and close the connection. A response that is under way on it is cut off."""
        self._refused = True
        self._stop_timer()
        if not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(answer)
            self.transport.close()


def protocol_with(options: Options) -> type[HttpToolsProtocol]:
    """A protocol class with these options: uvicorn makes the instances, one per connection, without arguments."""
    return type("Protocol", (BoundedHttpProtocol,), {"options": options, "idle": {}})
