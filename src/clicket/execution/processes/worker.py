"""The child's half: takes jobs one at a time, runs each in the main thread, sends back what comes of it.

The worker is kept for the next call. That call finds the modules imported and whatever else the process carries:
globals, the working directory, the environment, threads and child processes that a tool left running. Only the wire is
protected: prints go to the runtime's stderr, a context that outlives its call is mute, and so is a forked copy.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import resource
import signal
import sys
import traceback
from threading import Lock
from typing import NoReturn

import msgspec

from clicket.execution.processes.wire import Job, Kind, read, send

__all__ = ["Line", "check_process", "is_original", "is_stopping", "work"]

_STOPPED = 128 + signal.SIGTERM
_jobs = msgspec.json.Decoder(Job)
_process = os.getpid()
_stopping = False


class Line:
    """The descriptor, with one writer at a time, and at most one speaker beside the worker itself: the job's context."""

    __slots__ = ("_fd", "_lock", "speaker")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = Lock()
        self.speaker: object = None

    def send(self, kind: Kind, payload: bytes = b"") -> None:
        with self._lock:
            send(self._fd, kind, payload)

    def say(self, speaker: object, kind: Kind, payload: bytes) -> None:
        """Send for a context, unless its job is over: a thread that a tool left behind must not speak for the next."""
        with self._lock:
            if speaker is self.speaker:
                send(self._fd, kind, payload)


def work(fd: int, *, memory: int | None) -> NoReturn:
    """Serve jobs from this descriptor until it closes or the guard says TERM."""
    for stream in (sys.stdout, sys.stderr):
        # Prints show at once, and text that the terminal's encoding does not know is no reason to fail.
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    status = 0
    try:
        signal.signal(signal.SIGTERM, _stop)
        from clicket.execution.processes.body import perform  # it imports this module: not at the top

        if memory is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        line = Line(fd)
        line.send(Kind.READY, b"%d" % _process)
        while (frame := read(fd)) is not None:
            signal.signal(signal.SIGTERM, _stop)  # the tool before may have changed it
            kind, payload = perform(_jobs.decode(frame[1]), line)
            line.speaker = None  # before the answer takes the lock: what is said later is said to nobody
            _flush()
            line.send(kind, payload)
            del frame, payload
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    except (BrokenPipeError, ConnectionResetError):
        pass  # the runtime has let go of this worker
    _leave(status)


def is_original() -> bool:
    """Is this the worker, or a process that a tool forked from it?"""
    return os.getpid() == _process


def is_stopping() -> bool:
    return _stopping


def check_process(error: BaseException | None = None) -> None:
    """After a body: leave if the worker was told to stop, and if this is a forked copy, which must not answer twice."""
    if not is_original():
        if error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(error)
        os._exit(0 if error is None else 1)
    if _stopping:
        raise SystemExit(_STOPPED)


def _stop(_number: int, _frame: object) -> None:
    """TERM: the body is left by an exception, so that its `finally` blocks and context managers run within the grace."""
    global _stopping
    if not is_original():  # a process that the tool forked has inherited this handler, and should just end
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        return
    _stopping = True
    raise SystemExit(_STOPPED)


def _leave(status: int) -> NoReturn:
    """Leave without waiting for threads that a tool left behind, but with its exit handlers run."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    atexit._run_exitfuncs()
    _flush()
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a tool may have closed or replaced it
            stream.flush()
