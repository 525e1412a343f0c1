"""Server-sent events and lines out of bytes that arrive in pieces. Models, REST tools and clicket's client read streams with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["EventParser", "LineParser", "ServerSentEvent"]


class ServerSentEvent(NamedTuple):
    id: str
    type: str
    data: str


class LineParser:
    """Turns pieces of bytes into lines. Only a newline ends a line: JSON may contain the other characters at which Unicode breaks lines.

    A line of more than `max_size` bytes raises `ValueError`."""

    def __init__(self, max_size: int | None = None) -> None:
        self._max_size = max_size
        self._begun: list[bytes] = []
        self._size = 0

    def feed(self, part: bytes) -> Iterator[str]:
        *lines, rest = part.split(b"\n")
        for line in lines:
            whole = b"".join((*self._begun, line)).removesuffix(b"\r")
            self._begun.clear()
            self._size = 0
            yield whole.decode("utf-8", "replace")
        self._begun.append(rest)
        self._size += len(rest)
        if self._max_size is not None and self._size > self._max_size:
            raise ValueError(f"a line of more than {self._max_size} bytes")


class EventParser:
    """Turns pieces of bytes into events that have data. Comments and other fields are ignored, and an event that no empty line ended.

    A line of more than `max_line` bytes raises `ValueError`."""

    def __init__(self, max_line: int | None = None) -> None:
        self._lines = LineParser(max_line)
        self._fields: dict[str, str] = {}
        self._data: list[str] = []

    def feed(self, part: bytes) -> Iterator[ServerSentEvent]:
        for line in self._lines.feed(part):
            if line:
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "data":
                    self._data.append(value)
                else:
                    self._fields[name] = value
                continue
            fields, data = self._fields, self._data
            self._fields, self._data = {}, []
            if data:
                yield ServerSentEvent(fields.get("id", ""), fields.get("event", ""), "\n".join(data))

    def end(self) -> Iterator[ServerSentEvent]:
        """The stream has ended, and its last event counts without the empty line: some servers leave it out."""
        yield from self.feed(b"\n\n")
