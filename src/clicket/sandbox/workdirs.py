"""The sandbox's folders on the host: one home for a process, locked while it lives, one folder in it for a cage. Whoever
comes next sweeps the workdirs of those who died."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from clicket.sandbox import cgroup

__all__ = ["MARK", "PREFIX", "WorkdirRoot", "remove", "sweep"]

PREFIX = "clicket-sandbox-"
MARK = "bwrap:"
"""With the home's name behind it, what bubblewrap is called in the list of processes: one that was left alone in the very
moment of its birth can be found by that, and by nothing else."""
_LOCK = "lock"
_GROUPS = "cgroups"
_NEWBORN = 60.0
"""Seconds in which a home may be without its lock file."""
_DEEP = 50
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkdirRoot:
    """A folder that is this process's alone, and tells by its lock that the process lives."""

    def __init__(self, temp: Path | None = None) -> None:
        base = Path(temp) if temp is not None else Path(tempfile.gettempdir())
        sweep(base)
        self.path: Path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))  # 0700
        self._count = 0
        # It gets its name when it is locked: who sweeps must never find one that nobody holds yet.
        self._lock = os.open(self.path / "new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(self.path / "new", self.path / _LOCK)

    @property
    def name(self) -> str:
        return self.path.name

    def note_groups(self, parents: list[Path]) -> None:
        """Where this process makes its cgroups: they bear the home's name, and who sweeps it removes them, too."""
        (self.path / _GROUPS).write_text("".join(f"{parent}\n" for parent in parents))

    def let_through(self) -> None:
        """Where there is no mount namespace, another user has to get past this folder (not to see what is in it)."""
        self.path.chmod(0o711)

    def new_workdir(self, uid: int | None, *, scratch: bool = False) -> Path:
        """A folder with an empty `work` (and `scratch`) that belongs to that user, and a place for what `etc` needs."""
        self._count += 1
        folder = self.path / f"cage-{self._count}"
        folder.mkdir(mode=0o711)
        (folder / "etc").mkdir(mode=0o700)
        for name in ("work", "scratch") if scratch else ("work",):
            (folder / name).mkdir(mode=0o700)
            if uid is not None:
                os.chown(folder / name, uid, uid)
        return folder

    def close(self) -> None:
        remove(self.path)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep(base: Path) -> None:
    """Remove what processes of this user left behind that did not live to do it themselves."""
    with contextlib.suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _sweep_one(Path(entry.path))


def _sweep_one(home: Path) -> None:
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    try:
        lock = os.open(home / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - found.st_mtime > _NEWBORN:
            remove(home)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its owner lives
        return
    else:
        _end_marked(home.name)
        gone = [cgroup.sweep(Path(parent), home.name) for parent in _groups(home)]
        if all(gone):
            remove(home)  # else it stays, for the next who sweeps to find the groups by it
    finally:
        os.close(lock)


def _groups(home: Path) -> list[str]:
    try:
        return (home / _GROUPS).read_text().splitlines()
    except OSError:
        return []


def _end_marked(name: str) -> None:
    mark = os.fsencode(f"{MARK}{name}\0")
    for pid in filter(str.isdecimal, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as words:
            if words.read(len(mark)) == mark:
                os.kill(int(pid), signal.SIGKILL)


def remove(folder: Path) -> None:
    """Remove a folder whatever a program made in it: links are not followed, closed folders are opened, and depth does no
    harm, because what is nested very deep is first moved to the top."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return
        folder.chmod(0o700)
        top = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        numbers = itertools.count()
        while _empty(top, top, numbers):
            pass
    finally:
        os.close(top)
    shutil.rmtree(folder, ignore_errors=True)  # what stays even so is swept another time


def _empty(folder: int, top: int, numbers: Iterator[int], depth: int = 0) -> bool:
    """Remove what is in a folder. True: something was moved to the top, and has its turn next."""
    moved = False
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                os.unlink(name, dir_fd=folder)
                continue
            _open_up(folder, name)
            if depth == _DEEP:
                os.rename(name, f".moved-{next(numbers)}", src_dir_fd=folder, dst_dir_fd=top)
                moved = True
                continue
            inner = os.open(name, _FOLDER, dir_fd=folder)
            try:
                moved |= _empty(inner, top, numbers, depth + 1)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)
    return moved


def _open_up(parent: int, name: str) -> None:
    """A folder of mode 000 cannot be emptied. Nobody is left who could swap it for a link."""
    if stat.S_IMODE(os.lstat(name, dir_fd=parent).st_mode) & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
