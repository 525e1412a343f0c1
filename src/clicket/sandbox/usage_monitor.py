"""The layer `watch`: four times a second, while a program is busy, what it holds of memory and of its work folder. It tells,
and ends nothing itself."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Iterable

from clicket.bridge import Workers
from clicket.sandbox.disk import FreeSpaceTracker, Usage, usage
from clicket.sandbox.limits import Limits

__all__ = ["Usage", "UsageMonitor", "memory_of", "usage"]

PERIOD = 0.25
_BUFFER = "/proc/sys/net/core/wmem_default"
_USUAL_BUFFER = 208 * 1024
_INODE = 1024
"""What the kernel comes to hold for a file in memory, though no process shows it."""


class UsageMonitor:
    """Looks again and again, until it is told to rest or has something to tell."""

    def __init__(
        self,
        *,
        folders: tuple[int, ...],
        limits: Limits,
        pids: Callable[[], list[int]],
        memory: bool,
        workers: Workers,
        tell: Callable[[str], None],
        scratch: tuple[int, ...] = (),
    ) -> None:
        self._folders = folders
        self._scratch = scratch
        self._limits = limits
        self._pids = pids
        self._memory = memory
        self._workers = workers
        self._tell = tell
        self._room = FreeSpaceTracker(folders[0])
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False
        self.on: bool = False

    def start(self) -> None:
        """Cheap, because it is done for every block: the timer of the last one is still good."""
        if not self.on:
            self.on = True
            self._room.begin(self._folders[0])
        if self._timer is None:
            self._later()

    def rest(self) -> None:
        self.on = False

    def stop(self) -> None:
        self.on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def forget(self) -> None:
        """The folders are gone."""
        self._room.close()

    def _later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._round)

    def _round(self) -> None:
        self._timer = None
        if self.on:
            self._later()
            self.look()

    def look(self) -> None:
        """Once, in a thread, for a program decides how long it takes; one look at a time."""
        if self._looking:
            return
        self._looking = True
        folders = [os.dup(folder) for folder in self._folders]  # the cage may be closed meanwhile
        scratch = [os.dup(folder) for folder in self._scratch]

        def measure() -> str | None:
            try:
                return self._measure(folders, scratch)
            finally:
                for folder in (*folders, *scratch):
                    os.close(folder)

        def done(breach: str | None, error: BaseException | None) -> None:
            self._looking = False
            if breach is not None and self.on:
                self._tell(breach)

        self._workers.submit(measure, done)

    def _measure(self, folders: list[int], scratch: list[int]) -> str | None:
        limits, pids = self._limits, self._pids()
        found = usage(*folders, size=limits.disk, entries=limits.files, unlinked_of=pids)
        if self._memory:
            unseen = (found.sockets + found.in_flight) * _socket_memory() + sum(map(_held_in, scratch))
            if memory_of(pids) + unseen > limits.memory:
                return "memory"
        if found.over:
            return "disk"
        return "disk" if self._room.lacks(folders[0], found, size=limits.disk, entries=limits.files) else None


def memory_of(pids: Iterable[int]) -> int:
    """Bytes that these processes hold, what they share counted once between them where the kernel can tell."""
    return sum(_memory(pid) for pid in pids)


def _memory(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", encoding="ascii") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _held_in(folder: int) -> int:
    """Bytes that a file system in memory takes."""
    room = os.fstatvfs(folder)
    return (room.f_blocks - room.f_bfree) * room.f_frsize + (room.f_files - room.f_ffree) * _INODE


@functools.cache
def _socket_memory() -> int:
    """What the kernel comes to hold for a socket, though no process shows it: it takes one more message as long as there is any
    room, and a message may be as large as the whole. Programs in a cage cannot have larger buffers."""
    try:
        with open(_BUFFER, encoding="ascii") as text:
            return 2 * max(int(text.read()), _USUAL_BUFFER)
    except (OSError, ValueError):
        return 2 * _USUAL_BUFFER
