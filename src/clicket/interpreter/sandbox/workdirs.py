"""The sandbox's folders on the host: one root for each host process, locked while it lives, with one folder for each program.

The next host process removes the roots of processes that died.
"""

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

from clicket.interpreter.sandbox import cgroup

__all__ = ["BWRAP_NAME", "PREFIX", "WorkdirRoot", "remove", "sweep"]

PREFIX = "clicket-sandbox-"
BWRAP_NAME = "bwrap:"
"""Followed by the root's name, the process name of bubblewrap: the only way to find one whose host died while starting it."""
_LOCK = "lock"
_GROUPS = "cgroups"
_NEW = 60.0
"""Seconds for which a new root may lack its lock file."""
_MAX_DEPTH = 50
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkdirRoot:
    """A private folder of this process. Its lock shows that the process lives."""

    def __init__(self, temp: Path | None = None) -> None:
        base = Path(temp) if temp is not None else Path(tempfile.gettempdir())
        sweep(base)
        self.path: Path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))  # 0700
        self._count = 0
        # Renamed once it is locked: a sweep must never find an unlocked lock file of a living process.
        self._lock = os.open(self.path / "new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(self.path / "new", self.path / _LOCK)

    @property
    def name(self) -> str:
        return self.path.name

    def note_groups(self, parents: list[Path]) -> None:
        """Record where this process makes its cgroups, which carry the root's name, so that a sweep removes them too."""
        (self.path / _GROUPS).write_text("".join(f"{parent}\n" for parent in parents))

    def let_through(self) -> None:
        """Let other users pass through this folder (not list it): needed without a mount namespace."""
        self.path.chmod(0o711)

    def new_workdir(self, uid: int | None, *, scratch: bool = False) -> Path:
        """A folder with an empty `work` (and `scratch`) owned by that user, and an `etc` for generated files."""
        self._count += 1
        folder = self.path / f"program-{self._count}"
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
    """Remove what dead processes of this user left behind."""
    with contextlib.suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _sweep_one(Path(entry.path))


def _sweep_one(root: Path) -> None:
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    try:
        lock = os.open(root / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - found.st_mtime > _NEW:
            remove(root)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its owner lives
        return
    else:
        _kill_bubblewrap(root.name)
        gone = [cgroup.sweep(Path(parent), root.name) for parent in _groups(root)]
        if all(gone):
            remove(root)  # otherwise it stays, so that a later sweep finds the cgroups by it
    finally:
        os.close(lock)


def _groups(root: Path) -> list[str]:
    try:
        return (root / _GROUPS).read_text().splitlines()
    except OSError:
        return []


def _kill_bubblewrap(name: str) -> None:
    mark = os.fsencode(f"{BWRAP_NAME}{name}\0")
    for pid in filter(str.isdecimal, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as command:
            if command.read(len(mark)) == mark:
                os.kill(int(pid), signal.SIGKILL)


def remove(folder: Path) -> None:
    """Remove a folder whatever a program made in it: links are not followed, folders without permissions are opened, and very
    deep folders are first moved to the top."""
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
    shutil.rmtree(folder, ignore_errors=True)  # a later sweep removes what is left


def _empty(folder: int, top: int, numbers: Iterator[int], depth: int = 0) -> bool:
    """Remove a folder's content. True: something was moved to the top and has to be removed next."""
    moved = False
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                os.unlink(name, dir_fd=folder)
                continue
            _open_up(folder, name)
            if depth == _MAX_DEPTH:
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
    """A folder of mode 000 cannot be emptied. No process of the program is left that could replace it by a link."""
    if stat.S_IMODE(os.lstat(name, dir_fd=parent).st_mode) & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
