"""Reads server-sent events from an open HTTP response.

The SDKs open the stream; it is read here, because their readers stay half-open when a stream breaks off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["EventParser", "read_events"]

_MAX_LINE = 32 * 1024 * 1024
_REST = 1.0
"""Seconds to read the unneeded rest of a stream: a connection that was read to its end can be reused."""


class EventParser:
    """Turns chunks of bytes into events `(name, data)`. Comments and other fields are ignored."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._size = 0
        self._name = ""
        self._data: list[str] = []

    def feed(self, part: bytes) -> Iterator[tuple[str, str]]:
        *lines, rest = part.split(b"\n")
        for line in lines:
            whole = b"".join((*self._begun, line)).removesuffix(b"\r")
            self._begun.clear()
            self._size = 0
            if whole:
                self._line(whole.decode("utf-8", "replace"))
            else:
                yield from self._event()
        self._begun.append(rest)
        self._size += len(rest)
        if self._size > _MAX_LINE:
            raise ValueError(f"a line of more than {_MAX_LINE} bytes")

    def end(self) -> Iterator[tuple[str, str]]:
        """The stream has ended. Some servers leave out the empty line after the last event."""
        yield from self.feed(b"\n\n")

    def _line(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value

    def _event(self) -> Iterator[tuple[str, str]]:
        name = self._name
        data = "\n".join(self._data)
        self._name = ""
        self._data.clear()
        if data:
            yield name, data


async def read_events(response: Any, take: Callable[[str, str], bool]) -> None:
    """Pass each event to `take` until it returns False."""
    parser = EventParser()
    parts = response.aiter_bytes()
    async for part in parts:
        if not all(take(name, data) for name, data in parser.feed(part)):
            break
    else:
        for name, data in parser.end():
            if not take(name, data):
                return
        return
    # Read on instead of closing, so that every reader between here and the socket ends in order.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REST):
            async for _ in parts:
                pass
