"""The layer `watch`: four times a second, while a program is busy, what it holds of memory and of its work folder. It tells,
and ends nothing itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator

import msgspec

from clicket.bridge import Workers
from clicket.sandbox.limits import Limits

__all__ = ["Usage", "Watch", "memory_of", "usage"]

PERIOD = 0.25
_SMALL = 200
"""Entries up to which a folder is walked on the loop itself: less than a millisecond."""
_DEEPEST = 64
_BLOCK = 512


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a work folder."""

    size: int
    entries: int
    over: bool
    """A bound was passed; the walk ended there."""


class Watch:
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
    ) -> None:
        self._folders = folders
        self._limits = limits
        self._pids = pids
        self._memory = memory
        self._workers = workers
        self._tell = tell
        self._entries = 0
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False
        self.on = False

    def start(self) -> None:
        """Cheap, because it is done for every block: the timer of the last one is still good."""
        self.on = True
        if self._timer is None:
            self._later()

    def rest(self) -> None:
        self.on = False

    def stop(self) -> None:
        self.on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._round)

    def _round(self) -> None:
        self._timer = None
        if self.on:
            self._later()
            self.look()

    def look(self) -> None:
        """Once, now. What may take long is done in a thread, one look at a time."""
        if self._looking:
            return
        if self._memory or self._entries > _SMALL:
            self._look_aside()
            return
        most = min(_SMALL, self._limits.files)
        found = usage(*self._folders, size=self._limits.disk, entries=most, unlinked_of=self._pids())
        self._entries = found.entries
        if found.over and most < found.entries <= self._limits.files:  # only this look was too short for it
            self._look_aside()
        elif found.over:
            self._tell("disk")

    def _look_aside(self) -> None:
        folders = [os.dup(folder) for folder in self._folders]  # the cage may be closed meanwhile
        self._looking = True

        def measure() -> str | None:
            try:
                return self._measure(folders)
            finally:
                for folder in folders:
                    os.close(folder)

        def done(breach: str | None, error: BaseException | None) -> None:
            self._looking = False
            if breach is not None and self.on:
                self._tell(breach)

        self._workers.submit(measure, done)

    def _measure(self, folders: list[int]) -> str | None:
        pids = self._pids()
        if self._memory and memory_of(pids) > self._limits.memory:
            return "memory"
        found = usage(*folders, size=self._limits.disk, entries=self._limits.files, unlinked_of=pids)
        self._entries = found.entries
        return "disk" if found.over else None


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


def usage(*folders: int, size: int, entries: int, unlinked_of: Iterable[int] = ()) -> Usage:
    """Walk folders by descriptors, never through a link, and stop as soon as a bound is passed. Files that were removed
    but are still open in one of the given processes count, too: their bytes are on the disk."""
    device = os.fstat(folders[0]).st_dev
    used, seen, over = 0, 0, False
    for found in itertools.chain.from_iterable(map(_entries_of, folders)):
        if found is None:
            over = True
            break
        seen += 1
        used += found.st_blocks * _BLOCK
        if used > size or seen > entries:
            over = True
            break
    if not over:
        used += sum(_unlinked(unlinked_of, device))
        over = used > size
    return Usage(size=used, entries=seen, over=over)


def _entries_of(folder: int) -> Iterator[os.stat_result | None]:
    """Everything below a folder; None in place of a folder that is nested too deep to follow."""
    stack = [(os.dup(folder), iter(_names(folder)))]
    try:
        while stack:
            fd, names = stack[-1]
            name = next(names, None)
            if name is None:
                os.close(fd)
                stack.pop()
                continue
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:  # gone in the meantime
                continue
            yield found
            if stat.S_ISDIR(found.st_mode):
                if len(stack) >= _DEEPEST:
                    yield None
                    return
                with contextlib.suppress(OSError):
                    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                    stack.append((inner, iter(_names(inner))))
    finally:
        for fd, _ in stack:
            with contextlib.suppress(OSError):
                os.close(fd)


def _names(folder: int) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _unlinked(pids: Iterable[int], device: int) -> Iterator[int]:
    """Sizes of the removed files that these processes hold open, each once."""
    seen: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found = os.stat(f"/proc/{pid}/fd/{name}")
                    if found.st_nlink == 0 and found.st_dev == device and found.st_ino not in seen:
                        seen.add(found.st_ino)
                        if stat.S_ISREG(found.st_mode):
                            yield found.st_blocks * _BLOCK
