"""What a program holds of the disk: folders walked by descriptors, never through a link, and files that have no name any more.
Where something is held that cannot be counted, that is told: who looks can then go by what is missing from the disk."""

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
_SURE = 3
"""Looks in a row that must find a lack."""
_open: dict[int, tuple[int, int, int]] = {}
"""What each of our cages holds openly: device, bytes, entries."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a work folder, and what its processes hold beside it."""

    size: int
    entries: int
    over: bool
    """A bound was passed; the walk ended there."""
    veiled: bool = False
    """There is more than this, and nobody can say how much: a folder that its owner has shut, a descriptor on its way through
    a socket, a removed file of which only a piece of memory is left, a process that does not show what it has open."""
    sockets: int = 0
    in_flight: int = 0
    """Descriptors on their way through these sockets; each may be of a socket that no process has any more."""


class FreeSpaceTracker:
    """Tells when a disk lacks more than anybody holds openly. As long as all is in the open, its free room and what our cages
    hold make one sum; from then on, what is missing from the sum went behind the veil.

    Others who write to the disk meanwhile are taken for this program, so a lack counts only where there is a veil.
    """

    def __init__(self, folder: int) -> None:
        self._device = os.fstat(folder).st_dev
        self._veiled = False
        self._lacks = 0
        _open[id(self)] = (self._device, 0, 0)
        self._sum = self._sum_now(folder)

    def begin(self, folder: int) -> None:
        """After a time in which only others can have written to the disk."""
        if not self._veiled:
            self._sum = self._sum_now(folder)

    def lacks(self, folder: int, found: Usage, *, size: int, entries: int) -> bool:
        """More than so many bytes or entries, and not only for the moment in which another cage was not looked at yet."""
        _open[id(self)] = (self._device, found.size, found.entries)
        now, self._veiled = self._sum_now(folder), found.veiled
        if not found.veiled:
            self._sum = now
        much = self._sum[0] - now[0] > size or self._sum[1] - now[1] > entries
        self._lacks = self._lacks + 1 if much else 0
        return self._lacks >= _SURE

    def close(self) -> None:
        """When its folder is gone."""
        _open.pop(id(self), None)

    def _sum_now(self, folder: int) -> tuple[int, int]:
        room = os.fstatvfs(folder)
        held = [(size, entries) for device, size, entries in list(_open.values()) if device == self._device]
        return (
            room.f_bfree * room.f_frsize + sum(size for size, _ in held),
            room.f_ffree + sum(entries for _, entries in held),
        )


class _Held:
    """What was met on the way, beside names and sizes."""

    def __init__(self) -> None:
        self.veiled = False
        self.sockets: set[int] = set()
        self.in_flight = 0


def usage(*folders: int, size: int, entries: int, unlinked_of: Iterable[int] = ()) -> Usage:
    """Walk folders, and stop as soon as a bound is passed. Files that were removed but are still open in one of the given
    processes count, too: their bytes are on the disk."""
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
        size=used, entries=seen, over=over, veiled=held.veiled, sockets=len(held.sockets), in_flight=held.in_flight
    )


def _entries_of(folder: int, held: _Held) -> Iterator[os.stat_result | None]:
    """Everything below a folder; None in place of a folder that is nested too deep to follow."""
    stack = [(os.dup(folder), iter(_names(folder, held)))]
    try:
        while stack:
            fd, names = stack[-1]
            name = next(names, None)
            if name is None:
                os.close(fd)
                stack.pop()
                continue
            with _looking(held):
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
    with _looking(held):
        return os.listdir(folder)
    return []


def _unlinked(pids: Iterable[int], device: int, held: _Held) -> Iterator[int]:
    """Sizes of the removed files that these processes hold open, each once."""
    open_ones: set[int] = set()
    mapped: set[int] = set()
    for pid in pids:
        names: list[str] = []
        with _looking(held):
            names = os.listdir(f"/proc/{pid}/fd")
        for name in names:
            with _looking(held):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if stat.S_ISSOCK(found.st_mode):
                    _note_socket(pid, name, found.st_ino, held)
                elif found.st_nlink == 0 and found.st_ino not in open_ones:
                    open_ones.add(found.st_ino)
                    if stat.S_ISREG(found.st_mode) and found.st_dev == device:
                        yield found.st_blocks * _BLOCK
        with _looking(held):
            mapped.update(_mapped(pid, device))
    held.veiled |= bool(mapped - open_ones)


def _note_socket(pid: int, name: str, inode: int, held: _Held) -> None:
    if inode in held.sockets:
        return
    held.sockets.add(inode)
    with open(f"/proc/{pid}/fdinfo/{name}", "rb") as lines:
        in_flight = sum(int(line[len(_IN_FLIGHT) :]) for line in lines if line.startswith(_IN_FLIGHT))
    held.in_flight += in_flight
    held.veiled |= in_flight > 0


def _mapped(pid: int, device: int) -> Iterator[int]:
    """The inodes of removed files of which a process has pieces in its memory. Memory that processes share looks like one, on
    a device of its own."""
    where = f"{os.major(device):02x}:{os.minor(device):02x}".encode()
    with open(f"/proc/{pid}/maps", "rb") as lines:
        for line in lines:
            if line.endswith(_REMOVED):
                _, _, _, at, inode, _ = line.split(maxsplit=5)
                if at == where:
                    yield int(inode)


@contextlib.contextmanager
def _looking(held: _Held) -> Iterator[None]:
    """What has gone meanwhile is no matter; what may not be looked at is a veil."""
    try:
        yield
    except PermissionError:
        held.veiled = True
    except OSError:
        pass
