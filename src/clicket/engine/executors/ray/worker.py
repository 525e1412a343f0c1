"""In the Ray worker: one body of a tool, and what it sends, as a stream of frames.

The body runs only after the first item of the stream, which is empty, was read: the reader takes it when the attempt's start is
durable. The body runs in a thread; its messages wait in a bounded buffer when the reader lags behind.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from clicket.engine.executors.processes.body import describe_failure, perform
from clicket.engine.executors.processes.target import MAIN, Target
from clicket.engine.executors.processes.wire import Job, Kind, header
from clicket.errors import UsageError
from clicket.model.codec import encode

__all__ = ["READY", "run_body"]

READY = b""
"""The first item: the body has its resources, and waits."""
_MAX_BUFFERED = 4 * 1024 * 1024
"""Bytes of messages; a body that is faster than the journal waits in its next `emit`."""
_jobs = msgspec.json.Decoder(Job)


class _Outbox:
    """The messages of one body. Has the interface of `processes.connection.Connection` that a body uses."""

    def __init__(self) -> None:
        self.speaker: object = None
        self._changed = threading.Condition()
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._ended = False

    def send_for(self, speaker: object, kind: Kind, payload: bytes) -> None:
        """Send for a context, unless its body has ended."""
        with self._changed:
            while self._size > _MAX_BUFFERED and not self._ended:
                self._changed.wait()
            if speaker is self.speaker and not self._ended:
                self._put(kind, payload)

    def end(self, kind: Kind, payload: bytes) -> None:
        """Send the answer; messages that come later are dropped."""
        with self._changed:
            self._put(kind, payload)
            self._ended = True

    def _put(self, kind: Kind, payload: bytes) -> None:
        frame = header(kind, len(payload)) + payload
        self._frames.append(frame)
        self._size += len(frame)
        self._changed.notify_all()

    def take(self) -> tuple[bytes, bool]:
        """Wait for messages. Returns them, and whether they are the last ones."""
        with self._changed:
            while not self._frames:
                self._changed.wait()
            frames = b"".join(self._frames)
            self._frames.clear()
            self._size = 0
            self._changed.notify_all()
            return frames, self._ended


def run_body(job: bytes) -> Iterator[bytes]:
    """Run one body. Yields `READY`, then frames, of which the last is the answer."""
    yield READY
    outbox = _Outbox()

    def run() -> None:
        try:
            read = _jobs.decode(job)
            kind, payload = perform(msgspec.structs.replace(read, target=_found_here(read.target)), outbox)
        except BaseException as error:
            kind = Kind.FAILED
            payload = encode(describe_failure(error))
        outbox.end(kind, payload)

    body = threading.Thread(target=run, name="clicket-body", daemon=True)
    body.start()
    ended = False
    try:
        while not ended:
            frames, ended = outbox.take()
            yield frames
    finally:
        if not ended:  # nobody reads any more: the next task of this worker must not find the body running
            os._exit(1)


def _found_here(target: Target) -> Target:
    """The target on this machine, where the file of the tool's module may be elsewhere."""
    if target.file is None or Path(target.file).is_file():
        return target
    if target.module == "__main__":
        raise UsageError(
            f"the tool is in the script {target.file}, which this node of the Ray cluster does not have. Move the tool to a "
            f"module that is installed on every node, or share the file. (It runs as {MAIN}.)"
        )
    return msgspec.structs.replace(target, file=None)
