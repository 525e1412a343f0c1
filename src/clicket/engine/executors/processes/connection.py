"""The tool process's end of the job socket, with one writer at a time."""

from __future__ import annotations

from threading import Lock

from clicket.engine.executors.processes.wire import Kind, send

__all__ = ["Connection"]


class Connection:
    """The tool process may always send; of the contexts only that of the current job, `speaker`, may."""

    __slots__ = ("_fd", "_lock", "speaker")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = Lock()
        self.speaker: object = None

    def send(self, kind: Kind, payload: bytes = b"") -> None:
        with self._lock:
            send(self._fd, kind, payload)

    def send_for(self, speaker: object, kind: Kind, payload: bytes) -> None:
        """Send for a context, unless its job is over: a thread that a tool left running must not write into the next job."""
        with self._lock:
            if speaker is self.speaker:
                send(self._fd, kind, payload)
