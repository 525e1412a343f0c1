"""Server-sent events of an open response, one after the other, until they end or are enough.

The SDKs open the stream; it is read here, because theirs leave readers half-way behind them when a stream breaks off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["EventParser", "read_events"]

_MAX_LINE = 32 * 1024 * 1024
_REST = 1.0
"""Seconds in which the rest of a stream may come that nobody needs: a connection that was read to its end can be used again."""


class EventParser:
    """Bytes, cut anywhere, to `(name, data)`. Lines of comments and all other fields are passed over."""

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
        """Some servers forget the empty line after the last event."""
        yield from self.feed(b"\n\n")

    def _line(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value

    def _event(self) -> Iterator[tuple[str, str]]:
        name, data = self._name, "\n".join(self._data)
        self._name = ""
        self._data.clear()
        if data:
            yield name, data


async def read_events(response: Any, take: Callable[[str, str], bool]) -> None:
    """Each event to `take`, until it says that it has enough, by False."""
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
    # From inside, so that every reader between us and the socket ends now and in order.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REST):
            async for _ in parts:
                pass
