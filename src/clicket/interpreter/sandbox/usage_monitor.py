"""The layer `watch`: measures a busy program's memory and disk four times a second, and reports a limit that is exceeded.

Memory is measured here only where no cgroup limits it. A program can exceed the limit between two measurements; the address space
(`rlimits`, four times the memory limit) is the upper bound for each process.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Iterable

from clicket.interpreter.sandbox.disk import FreeSpaceTracker, Usage, usage
from clicket.interpreter.sandbox.limits import Limits
from clicket.system.bridge import ThreadPool

__all__ = ["Usage", "UsageMonitor", "cpu_time_of", "memory_of", "usage"]

PERIOD = 0.25
_BUFFER = "/proc/sys/net/core/wmem_default"
_USUAL_BUFFER = 208 * 1024
_INODE = 1024
"""Bytes of kernel memory for a file in tmpfs, which no process accounts for."""


class UsageMonitor:
    """Measures periodically from `start` to `pause`. `on_breach` gets "memory" or "disk"."""

    def __init__(
        self,
        *,
        folders: tuple[int, ...],
        limits: Limits,
        pids: Callable[[], list[int]],
        memory: bool,
        thread_pool: ThreadPool,
        on_breach: Callable[[str], None],
        scratch: tuple[int, ...] = (),
    ) -> None:
        self._folders = folders
        self._scratch = scratch
        self._limits = limits
        self._pids = pids
        self._memory = memory
        self._thread_pool = thread_pool
        self._on_breach = on_breach
        self._free_space = FreeSpaceTracker(folders[0])
        self._timer: asyncio.TimerHandle | None = None
        self._measuring = False
        self.on: bool = False

    def start(self) -> None:
        """Cheap, because it is called for every block: a timer that still runs is used again."""
        if not self.on:
            self.on = True
            self._free_space.begin(self._folders[0])
        if self._timer is None:
            self._schedule()

    def pause(self) -> None:
        self.on = False

    def stop(self) -> None:
        self.on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Call it when the folders are removed."""
        self._free_space.close()

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.on:
            self._schedule()
            self.measure()

    def measure(self) -> None:
        """Measure once, in a thread, because the program's files decide how long it takes; one measurement at a time."""
        if self._measuring:
            return
        self._measuring = True
        folders = [os.dup(folder) for folder in self._folders]  # the originals may be closed meanwhile
        scratch = [os.dup(folder) for folder in self._scratch]

        def measure() -> str | None:
            try:
                return self._measure(folders, scratch)
            finally:
                for folder in (*folders, *scratch):
                    os.close(folder)

        def done(breach: str | None, error: BaseException | None) -> None:
            self._measuring = False
            if breach is not None and self.on:
                self._on_breach(breach)

        self._thread_pool.submit(measure, done)

    def _measure(self, folders: list[int], scratch: list[int]) -> str | None:
        limits = self._limits
        pids = self._pids()
        found = usage(*folders, size=limits.disk, entries=limits.files, unlinked_of=pids)
        if self._memory:
            unseen = (found.sockets + found.in_flight) * socket_memory() + sum(map(_tmpfs_size, scratch))
            if memory_of(pids) + unseen > limits.memory:
                return "memory"
        if found.over:
            return "disk"
        is_over = self._free_space.is_over(folders[0], found, size=limits.disk, entries=limits.files)
        return "disk" if is_over else None


def memory_of(pids: Iterable[int]) -> int:
    """Bytes of memory of these processes; shared pages count once, where the kernel reports them."""
    return sum(_memory(pid) for pid in pids)


def _memory(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", encoding="ascii") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def cpu_time_of(pids: Iterable[int]) -> float:
    """Seconds of CPU time of these processes and of their children that were waited for."""
    return sum(map(_cpu_ticks, pids)) / os.sysconf("SC_CLK_TCK")


def _cpu_ticks(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as text:
        fields = (
            text.read().rpartition(b")")[2].split()
        )  # the name before it may have spaces, and is the program's choice
        return sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return 0


def _tmpfs_size(folder: int) -> int:
    """Bytes of memory that a tmpfs takes."""
    room = os.fstatvfs(folder)
    return (room.f_blocks - room.f_bfree) * room.f_frsize + (room.f_files - room.f_ffree) * _INODE


@functools.cache
def socket_memory() -> int:
    """Bytes of kernel memory that one socket can take, which no process accounts for: the kernel accepts another message while
    there is any room, and a message may fill the whole buffer. Programs in the sandbox cannot enlarge the buffers."""
    try:
        with open(_BUFFER, encoding="ascii") as text:
            return 2 * max(int(text.read()), _USUAL_BUFFER)
    except (OSError, ValueError):
        return 2 * _USUAL_BUFFER
