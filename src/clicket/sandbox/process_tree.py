"""The processes of a cage, seen from the host: who belongs to it, how all of them are ended, and when none is left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from typing import Protocol

from clicket.sandbox.descriptors import wait_readable

__all__ = ["ChildTree", "NamespaceTree", "ProcessTree", "SupervisedTree", "descendants"]


class ProcessTree(Protocol):
    """One way to hold the processes of a cage together."""

    pid: int
    """The process that stands for all."""
    program: int | None
    """The host's number of the program's first process."""

    def pids(self) -> list[int]:
        """All of them, without those that are ours (bubblewrap's, the guard)."""
        ...

    def interrupt(self) -> None: ...

    def kill(self) -> None: ...

    def signal_group(self, number: int) -> None:
        """To all of the program's group at one blow, where it has one that its processes cannot leave."""
        ...

    async def gone(self) -> None:
        """Comes back when no process of it is left."""
        ...

    def close(self) -> None: ...


class NamespaceTree:
    """A pid namespace: the death of its first process is the death of all."""

    def __init__(self, init: int) -> None:
        self.pid = init
        # Taken while bubblewrap waits for us: the number cannot be somebody else's yet.
        self._init_fd = os.pidfd_open(init)
        self._program_fd = -1
        self.program: int | None = None
        # When the memory of the whole machine runs out, the kernel shall take what is in here, and not the host.
        with contextlib.suppress(OSError), open(f"/proc/{init}/oom_score_adj", "w", encoding="ascii") as score:
            score.write("800")

    def settle(self) -> None:
        """Call this when the program is known to run, and before it is asked to do anything."""
        children = _children(self.pid)
        if children:
            self.program = children[0]
            with contextlib.suppress(OSError):
                self._program_fd = os.pidfd_open(self.program)

    def pids(self) -> list[int]:
        return descendants(self.pid)

    def interrupt(self) -> None:
        if self._program_fd >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._program_fd, signal.SIGINT)

    def kill(self) -> None:
        if self._init_fd >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)

    def signal_group(self, number: int) -> None:
        return  # inside, a program may make as many groups as it likes; its processes are counted

    async def gone(self) -> None:
        await wait_readable(self._init_fd)

    def close(self) -> None:
        for fd in (self._init_fd, self._program_fd):
            if fd >= 0:
                os.close(fd)
        self._init_fd = self._program_fd = -1


class SupervisedTree:
    """A guard that adopts every orphan below it: it ends only when nothing of the program is left."""

    def __init__(self, guard: int, program: int, lifeline: socket.socket) -> None:
        self.pid = guard
        self._lifeline = lifeline
        self.program: int | None = program
        self._group = program  # it leads one of its own
        self._program_fd = os.pidfd_open(program)  # the guard still holds it back

    def go(self) -> None:
        with contextlib.suppress(OSError):  # it is gone, and will be heard of
            self._lifeline.send(b"G")

    def pids(self) -> list[int]:
        return descendants(self.pid)

    def interrupt(self) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._program_fd, signal.SIGINT)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._lifeline.send(b"K")

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._program_fd, 0)  # it lives, or is not buried: the number is its own
            os.killpg(self._group, number)

    async def gone(self) -> None:
        return  # the guard's end says it

    def close(self) -> None:
        self._lifeline.close()
        if self._program_fd >= 0:
            os.close(self._program_fd)
            self._program_fd = -1


class ChildTree:
    """A plain child in a session of its own. What leaves the session and its parents escapes: that is this tree's gap."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid: int = process.pid
        self.program: int | None = process.pid

    def pids(self) -> list[int]:
        return [self._process.pid, *descendants(self._process.pid)]

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)  # looks first whether it was waited for

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


def descendants(pid: int) -> list[int]:
    """Everything below a process, nearest first."""
    found: list[int] = []
    pending = [pid]
    while pending:
        below = _children(pending.pop())
        found += below
        pending += below
    return found


def _children(pid: int) -> list[int]:
    """Those of all its threads. Kernels without that list in /proc are asked the long way round."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{thread}/children"
            with contextlib.suppress(ProcessLookupError, FileNotFoundError), open(path, encoding="ascii") as text:
                found += [int(word) for word in text.read().split()]
    except OSError:
        return []
    return found
