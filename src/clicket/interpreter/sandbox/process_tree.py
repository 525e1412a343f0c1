"""The processes of one program, from the host: which belong to it, how all are killed, and when none is left.

Each tree has `pid`, the process whose end is the end of all, and `program`, the host's pid of the program's first process. `pids`
leaves out our own processes (bubblewrap's, the supervisor). `signal_group` signals the program's whole process group at once, where
its processes cannot leave it. `gone` returns when no process is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess

import msgspec

from clicket.interpreter.sandbox.descriptors import wait_readable

__all__ = ["ChildTree", "Exit", "NamespaceTree", "ProcessTree", "SupervisedTree", "descendants"]


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended. `memory`: the kernel killed it because its cgroup was out of memory."""

    code: int | None = None
    signal: int | None = None
    memory: bool = False


class NamespaceTree:
    """A pid namespace: when its first process ends, the kernel kills all others."""

    def __init__(self, init: int) -> None:
        self.pid = init
        # Opened while bubblewrap waits for us, so the pid cannot have been reused.
        self._init_fd = os.pidfd_open(init)
        self._program_fd = -1
        self.program: int | None = None
        # When the machine is out of memory, the kernel kills these processes before the host.
        with contextlib.suppress(OSError), open(f"/proc/{init}/oom_score_adj", "w", encoding="ascii") as score:
            score.write("800")

    def find_program(self) -> None:
        """Find the program's process. Call this when the program runs and before it executes any code."""
        children = _children(self.pid)
        if children:
            self.program = children[0]
            with contextlib.suppress(OSError):
                self._program_fd = os.pidfd_open(self.program)

    def pids(self) -> list[int]:
        return descendants(self.pid)

    def interrupt(self) -> None:
        _send(self._program_fd, signal.SIGINT)

    def kill(self) -> None:
        _send(self._init_fd, signal.SIGKILL)

    def signal_group(self, number: int) -> None:
        return  # inside, a program may create process groups

    async def gone(self) -> None:
        await wait_readable(self._init_fd)

    def close(self) -> None:
        for fd in (self._init_fd, self._program_fd):
            if fd >= 0:
                os.close(fd)
        self._init_fd = self._program_fd = -1


class SupervisedTree:
    """Below a supervisor, which adopts every orphan and exits only when no process of the program is left."""

    def __init__(self, supervisor: int, program: int, lifeline: socket.socket) -> None:
        self.pid = supervisor
        self._lifeline = lifeline
        self.program: int | None = program
        self._group = program  # the program leads its own process group
        self._program_fd = os.pidfd_open(program)  # the program waits for `go`, so the pid cannot have been reused

    def go(self) -> None:
        """Let the program start."""
        with contextlib.suppress(OSError):  # the supervisor has exited, which `exited` reports
            self._lifeline.send(b"G")

    def pids(self) -> list[int]:
        return descendants(self.pid)

    def interrupt(self) -> None:
        _send(self._program_fd, signal.SIGINT)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._lifeline.send(b"K")

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._program_fd, 0)  # raises once it is reaped: until then its pid is not reused
            os.killpg(self._group, number)

    async def gone(self) -> None:
        return  # the supervisor's exit tells it

    def close(self) -> None:
        self._lifeline.close()
        if self._program_fd >= 0:
            os.close(self._program_fd)
            self._program_fd = -1


class ChildTree:
    """A plain child in its own session. A process that leaves the session and loses its parents escapes: a known gap."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid: int = process.pid
        self.program: int | None = process.pid

    def pids(self) -> list[int]:
        return [self._process.pid, *descendants(self._process.pid)]

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)  # does nothing once the child is reaped

    def kill(self) -> None:
        if self._process.returncode is not None:
            return
        below = descendants(self._process.pid)
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in below:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def signal_group(self, number: int) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, number)

    async def gone(self) -> None:
        return

    def close(self) -> None:
        return


ProcessTree = NamespaceTree | SupervisedTree | ChildTree


def _send(pidfd: int, number: int) -> None:
    """Nothing happens if the process is gone, or `pidfd` is -1."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(pidfd, number)


def descendants(pid: int) -> list[int]:
    """All processes below this one, parents before children."""
    found: list[int] = []
    pending = [pid]
    while pending:
        below = _children(pending.pop())
        found += below
        pending += below
    return found


def _children(pid: int) -> list[int]:
    """The children of all its threads."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{thread}/children"
            with contextlib.suppress(ProcessLookupError, FileNotFoundError), open(path, encoding="ascii") as text:
                found += [int(word) for word in text.read().split()]
    except OSError:
        return []
    return found
