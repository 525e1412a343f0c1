"""Frames between the runtime and a tool process: a length, a kind, and JSON. Nothing that is read can name code to run,
except the target of a job, which only the runtime writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct as Layout
from typing import Any

import msgspec

from clicket.engine.executors.processes.target import Target
from clicket.system.frames import FrameSplitter

__all__ = ["BIG", "MAX_FRAME", "Failure", "Frames", "Job", "Kind", "WireError", "header", "read", "send"]

MAX_FRAME = 512 * 1024 * 1024
BIG = 4 * 1024 * 1024
"""Payloads above this are joined in a thread, so that the event loop does not copy them."""

_HEADER = Layout("!IB")


class Kind(IntEnum):
    """The kind of a frame. The runtime sends `JOB`, the tool process all others."""

    READY = 1
    JOB = 2
    STARTED = 3
    EMIT = 4
    PROGRESS = 5
    HEARTBEAT = 6
    NOTE = 7
    OUTPUT = 8
    STREAMED = 9
    FAILED = 10
    FILES = 11


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool's body. The arguments stay encoded until the tool's module is imported."""

    target: Target
    arguments: msgspec.Raw
    context: dict[str, Any]
    deps: dict[str, Target] = {}
    """The factories of the deps that the body may read."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job has no output. `code` is the error code of the call: tool_error, invalid_input, result_unserializable."""

    code: str
    type: str
    module: str
    message: str
    retryable: bool | None = None
    retry_after: float | None = None
    traceback: str = ""
    problems: list[dict[str, str]] = []


class WireError(Exception):
    """The bytes are no frame: something wrote to a descriptor that it does not own."""


def header(kind: Kind, size: int) -> bytes:
    return _HEADER.pack(size, kind)


def send(fd: int, kind: Kind, payload: bytes = b"") -> None:
    """Write one frame to a blocking descriptor. It waits when the reader lags behind: that is the back-pressure."""
    rest = [memoryview(header(kind, len(payload))), memoryview(payload)]
    while rest:
        written = os.writev(fd, rest)
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]


def read(fd: int) -> tuple[Kind, bytearray] | None:
    """Read one frame from a blocking descriptor, or None when the other side has closed it."""
    head = _read_exactly(fd, _HEADER.size)
    if head is None:
        return None
    size, kind = _HEADER.unpack(head)
    payload = _read_exactly(fd, size)
    return None if payload is None else (Kind(kind), payload)


def _read_exactly(fd: int, size: int) -> bytearray | None:
    buffer = bytearray(size)
    view = memoryview(buffer)
    got = 0
    while got < size:
        count = os.readv(fd, [view[got:]])
        if count == 0:
            return None
        got += count
    return buffer


class Frames:
    """Splits a stream into frames as it arrives. A payload is a list of pieces, so that a big one is copied only once."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames = FrameSplitter(_HEADER, _checked_size)

    def feed(self, data: bytes) -> Iterator[tuple[Kind, list[bytearray]]]:
        for head, pieces in self._frames.feed(data):
            yield Kind(head[-1]), pieces


def _checked_size(size: int, kind: int) -> int:
    if size > MAX_FRAME or kind not in Kind._value2member_map_:
        raise WireError(f"a frame of kind {kind} and {size} bytes")
    return size
