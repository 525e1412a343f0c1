"""Counts what a program holds on disk: folders walked by descriptor, never through a link, and open files without a name.

What cannot be counted is reported as `uncounted`; `FreeSpaceTracker` then compares the free space of the disk.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterable, Iterator

import msgspec

__all__ = ["FreeSpaceTracker", "Usage", "usage"]

_DEEPEST = 64
_BLOCK = 512
_IN_FLIGHT = b"scm_fds:"
_REMOVED = b" (deleted)\n"
_CONFIRMATIONS = 3
"""Measurements in a row that must find too little free space."""
_counted: dict[int, tuple[int, int, int]] = {}
"""What each of our programs was counted to hold: device, bytes, entries."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a program's folders, and what its processes hold besides."""

    size: int
    entries: int
    over: bool
    """A limit was exceeded; the walk ended there."""
    uncounted: bool = False
    """There is more that cannot be counted: a folder without permissions, a descriptor in flight through a socket, a removed
    file that is only mapped, a process that hides its open files."""
    sockets: int = 0
    in_flight: int = 0
    """Descriptors in flight through these sockets. Each may be a socket that no process holds any more."""


class FreeSpaceTracker:
    """Detects disk space that a program holds uncounted.

    While everything is counted, the free space and what our programs hold have a constant sum. Once something is uncounted, what
    is missing from that sum is attributed to the program, also what other processes wrote meanwhile.
    """

    def __init__(self, folder: int) -> None:
        self._device = os.fstat(folder).st_dev
        self._uncounted = False
        self._found = 0
        _counted[id(self)] = (self._device, 0, 0)
        self._sum = self._sum_now(folder)

    def begin(self, folder: int) -> None:
        """Call it after a pause in which only other processes can have written to the disk."""
        if not self._uncounted:
            self._sum = self._sum_now(folder)

    def is_over(self, folder: int, found: Usage, *, size: int, entries: int) -> bool:
        """Whether more bytes or entries than these are missing, confirmed by several measurements, because another program may
        not have been measured yet."""
        _counted[id(self)] = (self._device, found.size, found.entries)
        now, self._uncounted = self._sum_now(folder), found.uncounted
        if not found.uncounted:
            self._sum = now
        much = self._sum[0] - now[0] > size or self._sum[1] - now[1] > entries
        self._found = self._found + 1 if much else 0
        return self._found >= _CONFIRMATIONS

    def close(self) -> None:
        """Call it when the folder is removed."""
        _counted.pop(id(self), None)

    def _sum_now(self, folder: int) -> tuple[int, int]:
        free = os.fstatvfs(folder)
        held = [(size, entries) for device, size, entries in list(_counted.values()) if device == self._device]
        return (
            free.f_bfree * free.f_frsize + sum(size for size, _ in held),
            free.f_ffree + sum(entries for _, entries in held),
        )


class _Held:
    """What a walk found besides names and sizes."""

    def __init__(self) -> None:
        self.uncounted = False
        self.sockets: set[int] = set()
        self.in_flight = 0


def usage(*folders: int, size: int, entries: int, unlinked_of: Iterable[int] = ()) -> Usage:
    """Walk folders until a limit is exceeded. Removed files that one of these processes still has open count too: their bytes
    are still on the disk."""
    device = os.fstat(folders[0]).st_dev
    held = _Held()
    used, seen, over = 0, 0, False
    for found in itertools.chain.from_iterable(_entries_of(folder, held) for folder in folders):
        if found is None:
            over = True
            break
        seen += 1
        used += found.st_blocks * _BLOCK
        if used > size or seen > entries:
            over = True
            break
    if not over:
        used += sum(_unlinked(unlinked_of, device, held))
        over = used > size
    return Usage(
        size=used,
        entries=seen,
        over=over,
        uncounted=held.uncounted,
        sockets=len(held.sockets),
        in_flight=held.in_flight,
    )


def _entries_of(folder: int, held: _Held) -> Iterator[os.stat_result | None]:
    """Everything below a folder; None for a folder that is nested too deep."""
    stack = [(os.dup(folder), iter(_names(folder, held)))]
    try:
        while stack:
            fd, names = stack[-1]
            name = next(names, None)
            if name is None:
                os.close(fd)
                stack.pop()
                continue
            with _noting(held):
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                yield found
                if stat.S_ISDIR(found.st_mode):
                    if len(stack) >= _DEEPEST:
                        yield None
                        return
                    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                    stack.append((inner, iter(_names(inner, held))))
    finally:
        for fd, _ in stack:
            with contextlib.suppress(OSError):
                os.close(fd)


def _names(folder: int, held: _Held) -> list[str]:
    with _noting(held):
        return os.listdir(folder)
    return []


def _unlinked(pids: Iterable[int], device: int, held: _Held) -> Iterator[int]:
    """Sizes of the removed files that these processes hold open, each once."""
    open_ones: set[int] = set()
    mapped: set[int] = set()
    for pid in pids:
        names: list[str] = []
        with _noting(held):
            names = os.listdir(f"/proc/{pid}/fd")
        for name in names:
            with _noting(held):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if stat.S_ISSOCK(found.st_mode):
                    _note_socket(pid, name, found.st_ino, held)
                elif found.st_nlink == 0 and found.st_ino not in open_ones:
                    open_ones.add(found.st_ino)
                    if stat.S_ISREG(found.st_mode) and found.st_dev == device:
                        yield found.st_blocks * _BLOCK
        with _noting(held):
            mapped.update(_mapped(pid, device))
    held.uncounted |= bool(mapped - open_ones)


def _note_socket(pid: int, name: str, inode: int, held: _Held) -> None:
    if inode in held.sockets:
        return
    held.sockets.add(inode)
    with open(f"/proc/{pid}/fdinfo/{name}", "rb") as lines:
        in_flight = sum(int(line[len(_IN_FLIGHT) :]) for line in lines if line.startswith(_IN_FLIGHT))
    held.in_flight += in_flight
    held.uncounted |= in_flight > 0


def _mapped(pid: int, device: int) -> Iterator[int]:
    """The inodes of removed files that a process has mapped. Shared memory looks the same, on another device."""
    where = f"{os.major(device):02x}:{os.minor(device):02x}".encode()
    with open(f"/proc/{pid}/maps", "rb") as lines:
        for line in lines:
            if line.endswith(_REMOVED):
                _, _, _, at, inode, _ = line.split(maxsplit=5)
                if at == where:
                    yield int(inode)


@contextlib.contextmanager
def _noting(held: _Held) -> Iterator[None]:
    """Ignore what is gone meanwhile; note what may not be read."""
    try:
        yield
    except PermissionError:
        held.uncounted = True
    except OSError:
        pass
