"""The uses of tools of a session's blocks: taken from the child's frames in order, handed to a handler, answered. Nothing is answered
after a block's end, and what is under way then is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from clicket.interpreter.session.block_clock import BlockClock
from clicket.interpreter.session.connection import Connection
from clicket.interpreter.session.protocol import UseFrame, Violation, WithdrawFrame, answer

__all__ = ["SessionUses", "UseHandler", "UseReply"]

_MAX_OPEN = 8 * 1024 * 1024
"""Approximate bytes of uses under way before the program has to wait."""
_OVERHEAD = 4 * 1024
_MAX_UNSENT = 1024 * 1024
"""Bytes of answers that the program has not read before further uses have to wait."""
_STOPPED = b'"error":{"code":"cancelled","message":"the program is being stopped."}'

UseReply = Callable[[bytes], "Awaitable[None] | None"]
"""Takes the answer as JSON fields. Returns what to await before the next use, if the program reads its answers slowly."""


class UseHandler(Protocol):
    """Performs the uses of one run."""

    @property
    def listing(self) -> dict[str, Any]:
        """The tools, as the child gets them. The same object while they are the same."""
        ...

    def begin(self, tool: str, arguments: bytes, reply: UseReply) -> Callable[[], object]:
        """Begin a use, with arguments as JSON text; returns what cancels it. May raise `Violation`: the program is then killed."""
        ...


class SessionUses:
    """`on_room`: more frames may be read."""

    def __init__(self, connection: Connection, clock: BlockClock, on_room: Callable[[], None]) -> None:
        self._connection = connection
        self._clock = clock
        self._on_room = on_room
        self._handler: UseHandler | None = None
        self._listing: dict[str, Any] | None = None
        """The tools that were sent to the child last."""
        self._next = 1
        self._open: dict[int, tuple[Callable[[], object], int]] = {}
        self._size = 0
        self._closed = True

    @property
    def full(self) -> bool:
        return self._size > _MAX_OPEN

    def begin(self, handler: UseHandler | None) -> dict[str, Any]:
        """A block begins. Returns what has to be sent to the child about its tools, as keywords of `protocol.execute`."""
        self._handler = handler
        self._closed = handler is None
        listing = None if handler is None else handler.listing
        if listing is self._listing:
            return {}
        self._listing = listing
        return {"tools": listing}

    def take(self, frame: UseFrame | WithdrawFrame) -> None:
        """Raises `Violation` for a frame that no child sends."""
        number = frame.use
        handler = self._handler
        if handler is None:
            raise Violation("a use of a tool by a program that has none")
        if isinstance(frame, WithdrawFrame):
            if number >= self._next:
                raise Violation(f"use {number}, which was never made, was withdrawn")
            self._remove(number, cancel=True)
            return
        if number != self._next:
            raise Violation(f"use {number} came in place of use {self._next}")
        self._next += 1
        arguments = bytes(frame.arguments)
        if self._closed:  # the program was stopped
            self._connection.send(answer(number, _STOPPED))
            return
        size = _OVERHEAD + len(arguments)
        self._size += size
        if not self._open:
            self._clock.pause()
        self._open[number] = (lambda: None, size)  # it may be answered at once
        cancel = handler.begin(frame.tool, arguments, lambda body: self._reply(number, body))
        if number in self._open:
            self._open[number] = (cancel, size)
        if self.full:
            self._connection.pause_all()

    def close(self) -> None:
        """The block is over, or is being stopped."""
        self._closed = True
        for number in list(self._open):
            self._remove(number, cancel=True)

    def _reply(self, number: int, body: bytes) -> Awaitable[None] | None:
        if self._closed or number not in self._open:
            return None
        self._connection.send(answer(number, body))
        self._remove(number)
        return self._connection.drain_commands() if self._connection.unsent > _MAX_UNSENT else None

    def _remove(self, number: int, *, cancel: bool = False) -> None:
        stop, size = self._open.pop(number, (None, 0))
        if stop is None:
            return
        was_full = self.full
        self._size -= size
        if cancel:
            stop()
        if not self._open and not self._closed:
            self._clock.resume()
        if was_full and not self.full and not self._closed:
            self._on_room()
