"""The runtime's half of one tool process: a child process that runs one job at a time and can be ended at any moment.

A tool process that was stopped, died, or whose job was left unfinished is never used again. Its end is complete: when
`stop` returns or a `ToolProcessDied` is raised, no process that the tool started is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import msgspec

from clicket.engine.executors.processes import tree
from clicket.engine.executors.processes.file_outputs import FilesOutput
from clicket.engine.executors.processes.target import Target, refuse_unguarded_main
from clicket.engine.executors.processes.wire import BIG, MAX_FRAME, Failure, Frames, Job, Kind, WireError, header
from clicket.errors import ClicketError, InvalidInput, ResultUnserializable, UsageError
from clicket.model.codec import decode, encode

__all__ = ["MESSAGES", "Message", "ToolFailed", "ToolProcess", "ToolProcessDied"]

Message = Callable[[str, Any], None]

MESSAGES = {Kind.EMIT: "emit", Kind.PROGRESS: "progress", Kind.HEARTBEAT: "heartbeat", Kind.NOTE: "note"}
_failures = msgspec.json.Decoder(Failure)


class ToolProcessDied(ClicketError):
    """The process ended under its job. `details` has `exit_code` or `signal`, and `stopped` when the runtime ended it."""

    code = "tool_error"


class ToolFailed(Exception):
    """The tool's body raised in the child. The exception is not sent between processes, only its description."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.type = failure.type  # the bare class name, as for tools that run in other lanes
        self.module = failure.module
        self.message = failure.message
        self.retryable = failure.retryable
        self.retry_after = failure.retry_after
        self.traceback = failure.traceback


class _Running:
    """The current job: the future of its answer and the callbacks of its caller."""

    __slots__ = ("answer", "message", "started")

    def __init__(
        self, answer: asyncio.Future[tuple[Kind, list[bytearray]]], started: Callable[[], None], message: Message
    ) -> None:
        self.answer = answer
        self.started = started
        self.message = message


class ToolProcess(asyncio.Protocol):
    """One child process. Made by `spawn`, usable once `ready` has returned, gone once `stop` has."""

    def __init__(self, guard: subprocess.Popen[bytes], lifeline: socket.socket, token: str, grace: float) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0  # of the process that runs the tools; known when it is ready
        self._guard = guard
        self._lifeline = lifeline
        self._roots = [tree.identify(guard.pid)]
        self._token = token
        self._grace = grace
        self._transport: asyncio.Transport | None = None
        self._frames = Frames()
        self._unread: deque[tuple[Kind, list[bytearray]]] = deque()
        self._paused = False
        self._running: _Running | None = None
        self._spoiled = False  # never to be used again
        self._stopping = False
        self._lost_wire = False
        self._status = b""
        self._ready: asyncio.Future[None] = loop.create_future()
        self._guard_gone: asyncio.Future[None] = loop.create_future()
        self._wire_closed: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Task[None] | None = None

    # Life ------------------------------------------------------------------------------------------------------------

    @classmethod
    def spawn(cls, *, memory: int | None, grace: float, ended: Callable[[ToolProcess], None]) -> ToolProcess:
        """Start the child; `ended(child)` is called when it is gone, whatever the reason."""
        refuse_unguarded_main()
        job, job_of_child = socket.socketpair()
        lifeline, lifeline_of_child = socket.socketpair()
        token = token_hex(8)
        try:
            guard = _start_guard(job_of_child, lifeline_of_child, token)
        except BaseException:
            job.close()
            lifeline.close()
            raise
        finally:
            job_of_child.close()
            lifeline_of_child.close()
        lifeline.sendall(_setup(grace, memory))
        lifeline.setblocking(False)
        child = cls(guard, lifeline, token, grace)
        child._ended = asyncio.get_running_loop().create_task(child._live(job, ended), name=f"child {guard.pid}")
        return child

    async def ready(self) -> None:
        """Wait until the child takes jobs; `ToolProcessDied` when it does not come up."""
        await asyncio.shield(self._ready)

    @property
    def free(self) -> bool:
        """Can it take a job?"""
        return bool(self.pid) and self._running is None and not self._spoiled

    async def stop(self) -> None:
        """End the tool process and every descendant: TERM, up to `grace`, KILL. Returns when they are gone."""
        assert self._ended is not None
        self._order_stop()
        self._let_go()
        # The guard keeps the time. If it cannot, because something stopped it, this process ends the tree.
        done, _ = await asyncio.wait({self._ended}, timeout=self._grace + 5)
        if not done:
            await asyncio.to_thread(tree.end_tree, self._roots, self._token, 0.0)
            await asyncio.wait({self._ended})

    async def _live(self, job: socket.socket, ended: Callable[[ToolProcess], None]) -> None:
        """Follow the tool process from start to end. Only here are descriptors closed, the process reaped and the waiters notified."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._lifeline, self._read_lifeline)
        await loop.create_unix_connection(lambda: self, sock=job)
        try:
            await self._guard_gone
        except asyncio.CancelledError:  # the loop ends and the pool was not closed: closing the lifeline ends the guard
            await self._abandon()
            raise
        self._spoiled = True
        if not self._status:  # the guard itself was killed: the child goes with it, whose children have to be found
            await asyncio.to_thread(tree.end_tree, self._roots, self._token, 0.0)
        if not self._stopping:
            # The answer may have been sent just before the end; it is read to the last byte, however long that is paused.
            await asyncio.wait({self._wire_closed}, timeout=None if self._paused else 1.0)
        self._guard.wait()  # returns at once: its lifeline is closed, the rest is a few microseconds of the kernel's
        self._lifeline.close()
        if self._transport is not None:
            self._transport.abort()
            await asyncio.sleep(
                0
            )  # the transport closes its socket in the loop's next turn; the loop may be closed then
        died = self._death_error()
        if not self._ready.done():
            self._ready.set_exception(died)
            self._ready.exception()  # marks it as retrieved: there may be no waiter
        if self._running is not None and not self._running.answer.done():
            self._running.answer.set_exception(died)
        ended(self)

    async def _abandon(self) -> None:
        asyncio.get_running_loop().remove_reader(self._lifeline)
        self._lifeline.close()
        if self._transport is not None:
            self._transport.abort()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._guard.wait, 5.0)

    def _read_lifeline(self) -> None:
        try:
            data = self._lifeline.recv(64)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._status += data
        if not data:
            asyncio.get_running_loop().remove_reader(self._lifeline)
            self._guard_gone.set_result(None)

    def _order_stop(self) -> None:
        self._spoiled = True
        if self._stopping or self._guard_gone.done():
            return
        self._stopping = True
        with contextlib.suppress(OSError):  # it is ending already
            self._lifeline.send(b"T")

    def _let_go(self) -> None:
        """Ignore further messages of the tool process."""
        if not self._wire_closed.done() and self._guard_gone.done():
            self._wire_closed.set_result(None)

    def _death_error(self) -> ToolProcessDied:
        status = int(self._status) if self._status else None
        details: dict[str, Any] = {"pid": self.pid, "stopped": self._stopping and not self._lost_wire}
        if not self.pid and not self._stopping:
            text = "the tool process did not start; its stderr says why. Does `python -c 'import clicket'` work here"
            return ToolProcessDied(f"{text} with the same sys.path?", exit_code=status, **details)
        if self._lost_wire and status in (None, 128 + signal.SIGTERM, -signal.SIGKILL):
            text = "the tool process lost its connection: the tool closed or wrote to a file descriptor that is not its own."
            return ToolProcessDied(text, **details)
        if self._stopping and not self._lost_wire:
            return ToolProcessDied("the tool process was stopped.", **details)
        if status is None:
            return ToolProcessDied("the tool process was ended together with its guard, from outside.", **details)
        if status >= 0:
            text = f"the tool process was ended by its tool with exit code {status}; return or raise instead."
            return ToolProcessDied(text, exit_code=status, **details)
        name = _signal_name(-status)
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return ToolProcessDied(f"the tool process was ended by {name}{hint}.", signal=name, **details)

    # Work ------------------------------------------------------------------------------------------------------------

    async def run(
        self,
        target: Target,
        arguments: bytes,
        *,
        context: dict[str, Any],
        started: Callable[[], None],
        message: Message,
        deps: Mapping[str, Target] | None = None,
    ) -> bytes | FilesOutput | None:
        """Run the tool's body in the child. Returns its output as JSON text or with its files, or None if all of it was emitted;
        raises `ToolFailed`, `InvalidInput`, `ResultUnserializable` or `ToolProcessDied`.

        `started()` is called when the body is about to run, its module imported. `message(kind, data)` brings `emit`
        (the chunk), `progress` (step, total, text), `heartbeat` (None) and `note` (text, data). `context` has the fields
        of `ToolContext`, and may have `time_left`, in seconds from the body's start. `deps`: factories of the deps that it may read.
        Leaving this early (a cancel) spoils the tool process: `stop` it.
        """
        if not self.free or self._transport is None:
            raise self._death_error() if self._guard_gone.done() else UsageError("it is busy or was stopped.")
        payload = encode(Job(target=target, arguments=msgspec.Raw(arguments), context=context, deps=dict(deps or {})))
        if len(payload) > MAX_FRAME:
            raise InvalidInput(
                f"arguments of {len(payload):,} bytes are too much for a process tool", "Pass a file's name."
            )
        answer: asyncio.Future[tuple[Kind, list[bytearray]]] = asyncio.get_running_loop().create_future()
        self._running = _Running(answer, started, message)
        try:
            self._transport.write(header(Kind.JOB, len(payload)))
            self._transport.write(payload)
            kind, pieces = await answer
        except BaseException:
            self._spoiled = True
            raise
        finally:
            self._running = None
        if kind is Kind.STREAMED:
            return None
        if sum(map(len, pieces)) > BIG:
            text = await asyncio.to_thread(b"".join, pieces)
        else:
            text = b"".join(pieces)
        if kind is Kind.FILES:
            return FilesOutput(text)
        return text if kind is Kind.OUTPUT else self._raise(_failures.decode(text))

    def _raise(self, failure: Failure) -> bytes:
        if failure.code == "invalid_input":
            raise InvalidInput(failure.problems or failure.message)
        if failure.code == "result_unserializable":
            raise ResultUnserializable(failure.message)
        if failure.type == "MemoryError":
            self._spoiled = True  # its heap is fragmented; the next call gets a new tool process
        raise ToolFailed(failure)

    def pause(self) -> None:
        """Read no more messages; the tool then blocks in its next `emit`."""
        self._paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        self._paused = False
        self._deliver()
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # The wire --------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._unread.extend(self._frames.feed(data))
            self._deliver()
        except (WireError, msgspec.DecodeError):
            self._break_off()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._wire_closed.done():
            self._wire_closed.set_result(None)
        if not self._guard_gone.done() and not self._stopping:
            # Usually the child is dead, and its guard is about to report why. A live child is of no use without its socket.
            asyncio.get_running_loop().call_later(2.0, self._break_off)

    def _break_off(self) -> None:
        if not self._stopping and not self._guard_gone.done():
            self._lost_wire = True
            self._order_stop()

    def _deliver(self) -> None:
        while self._unread and not self._paused:
            kind, pieces = self._unread.popleft()
            if kind is Kind.READY:
                self.pid = int(b"".join(pieces))
                self._roots.append(tree.identify(self.pid))
                if not self._ready.done():
                    self._ready.set_result(None)
            elif self._running is not None and not self._running.answer.done():
                self._dispatch(self._running, kind, pieces)

    def _dispatch(self, running: _Running, kind: Kind, pieces: list[bytearray]) -> None:
        try:
            if kind is Kind.STARTED:
                running.started()
            elif kind in MESSAGES:
                running.message(MESSAGES[kind], decode(b"".join(pieces)) if pieces else None)
            else:
                running.answer.set_result((kind, pieces))
        except msgspec.DecodeError:
            raise
        except Exception as error:  # an error of the listener: the caller of `run` gets it
            running.answer.set_exception(error)


def _start_guard(job: socket.socket, lifeline: socket.socket, token: str) -> subprocess.Popen[bytes]:
    fds = (job.fileno(), lifeline.fileno())
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    return subprocess.Popen(
        [sys.executable, *flags, "-P", str(Path(__file__).with_name("guard.py")), *map(str, fds)],
        stdin=subprocess.DEVNULL,
        stdout=_stderr_or_null(),  # what a tool prints must not go to the runtime's stdout
        pass_fds=fds,
        env={**os.environ, tree.MARK: token},
        start_new_session=True,
    )


def _setup(grace: float, memory: int | None) -> bytes:
    path = [entry for entry in sys.path if isinstance(entry, str)]  # the import system ignores all others
    setup = {"owner": os.getpid(), "path": path, "argv": sys.argv, "grace": grace, "memory": memory}
    return json.dumps(setup).encode() + b"\n"


def _stderr_or_null() -> int:
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
