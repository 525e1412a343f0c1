"""The child's side: takes jobs one at a time, runs each in the main thread, sends back the output or the failure.

The tool process is kept for the next call. That call finds the modules imported and all other state of the process:
globals, the working directory, the environment, threads and child processes that a tool left running. Only the
socket is protected: prints go to the runtime's stderr; a context that outlives its call sends nothing, nor does a forked copy.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import resource
import signal
import sys
from typing import NoReturn

import msgspec

from clicket.engine.executors.processes.connection import Connection
from clicket.engine.executors.processes.termination import handle_term, process_id
from clicket.engine.executors.processes.wire import Job, Kind, read

__all__ = ["work"]

_jobs = msgspec.json.Decoder(Job)


def work(fd: int, *, memory: int | None) -> NoReturn:
    """Serve jobs from this descriptor until it closes or the guard sends TERM."""
    for stream in (sys.stdout, sys.stderr):
        # Prints show at once, and text that the terminal's encoding does not know is not a reason to fail.
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    status = 0
    try:
        handle_term()
        from clicket.engine.executors.processes.body import perform  # it takes a while: SIGTERM must be handled by then

        if memory is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        connection = Connection(fd)
        connection.send(Kind.READY, b"%d" % process_id)
        while (frame := read(fd)) is not None:
            handle_term()  # the tool before may have changed it
            kind, payload = perform(_jobs.decode(frame[1]), connection)
            connection.speaker = None  # before the answer takes the lock: later messages of the job are dropped
            _flush()
            connection.send(kind, payload)
            del frame, payload
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    except (BrokenPipeError, ConnectionResetError):
        pass  # the runtime has released this tool process
    _leave(status)


def _leave(status: int) -> NoReturn:
    """Exit without waiting for threads that a tool left running, but run the exit handlers."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    atexit._run_exitfuncs()
    _flush()
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a tool may have closed or replaced it
            stream.flush()
