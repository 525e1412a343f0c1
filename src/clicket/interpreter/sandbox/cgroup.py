"""The layer `cgroup`: one group for each program, below our own group.

The kernel limits the group's memory and processes, gives it the CPU share of one process, and can freeze or kill all of its
processes at once. Our own process is never moved.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec

__all__ = ["Group", "Parents", "find", "sweep", "sweep_forgotten"]

_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")
_SWEEP_TIMEOUT = 2.0
_NEW = 60.0
"""Seconds for which a new group may be empty."""
_WANTED = {"memory", "pids"}


class Parents(msgspec.Struct, frozen=True, kw_only=True):
    """Folders in which groups can be made, by controller."""

    memory: Path | None = None
    pids: Path | None = None
    freezer: Path | None = None
    cpu: Path | None = None
    """A group here gets the CPU share of one process, however many processes and sessions it has."""
    unified: Path | None = None
    """Version 2, with or without controllers: a group here can be frozen and killed."""
    controlled: bool = False
    """`unified` limits memory and processes."""

    @property
    def bounds(self) -> bool:
        return self.controlled or (self.memory is not None and self.pids is not None)

    @property
    def folders(self) -> list[Path]:
        return [f for f in (self.memory, self.pids, self.freezer, self.cpu, self.unified) if f is not None]


def find() -> Parents:
    """The folders that this process may use; possibly none."""
    try:
        mounts = _mounts(_MOUNTS.read_text())
        own = _own(_OWN.read_text())
    except OSError:
        return Parents()
    unified, controlled = _unified(mounts, own)
    if controlled:
        return Parents(unified=unified, controlled=True)
    one = {name: _writable(_below(mounts, own, name)) for name in ("memory", "pids", "freezer", "cpu")}
    return Parents(
        memory=one["memory"],
        pids=one["pids"],
        freezer=None if unified is not None else one["freezer"],
        cpu=one["cpu"],
        unified=unified,
    )


class Group:
    """The cgroup of one program, in each hierarchy. Raises OSError when it cannot be made."""

    def __init__(self, parents: Parents, name: str, *, memory: int, processes: int) -> None:
        self._parents = parents
        self._made: list[Path] = []
        try:
            for parent in parents.folders:
                folder = parent / name
                folder.mkdir()
                self._made.append(folder)
            self._name = name
            self._bound(memory, processes)
        except OSError:
            self.remove()
            raise

    @property
    def bounds_memory(self) -> bool:
        return self._parents.bounds

    def _bound(self, memory: int, processes: int) -> None:
        parents = self._parents
        if parents.controlled and parents.unified is not None:
            group = parents.unified / self._name
            _write(group / "memory.max", memory)
            _try(group / "memory.swap.max", 0)
            _try(group / "memory.oom.group", 0)
            _write(group / "pids.max", processes)
            return
        if parents.memory is not None:
            _write(parents.memory / self._name / "memory.limit_in_bytes", memory)
            _try(parents.memory / self._name / "memory.memsw.limit_in_bytes", memory)
        if parents.pids is not None:
            _write(parents.pids / self._name / "pids.max", processes)

    def join(self, pid: int) -> None:
        """Add a process before it starts others: its children will be in the group too."""
        for folder in self._made:
            _write(folder / "cgroup.procs", pid)

    def pids(self) -> list[int]:
        return _pids(self._made[0]) if self._made else []

    def holds(self, pid: int) -> bool:
        """Whether a process is in the group, in every hierarchy."""
        return all(pid in _pids(folder) for folder in self._made)

    def memory(self) -> int | None:
        """Bytes in use, if the group counts them."""
        found = self._memory_file("memory.current", "memory.usage_in_bytes")
        return None if found is None else _number(found)

    def out_of_memory(self) -> int:
        """How many processes the kernel killed because the group was out of memory."""
        found = self._memory_file("memory.events", "memory.oom_control")
        return 0 if found is None else _counter(found, "oom_kill")

    def _memory_file(self, version_2: str, version_1: str) -> Path | None:
        parents = self._parents
        if parents.controlled and parents.unified is not None:
            return parents.unified / self._name / version_2
        return None if parents.memory is None else parents.memory / self._name / version_1

    def freeze(self, on: bool) -> bool:
        """False where the group cannot be frozen."""
        if self._parents.unified is not None:
            return _try(self._parents.unified / self._name / "cgroup.freeze", int(on))
        if self._parents.freezer is not None:
            return _try(self._parents.freezer / self._name / "freezer.state", "FROZEN" if on else "THAWED")
        return False

    def kill(self) -> None:
        """Kill all processes. In version 1, frozen processes die only when they thaw."""
        if self._parents.unified is not None and _try(self._parents.unified / self._name / "cgroup.kill", 1):
            return
        self.freeze(True)
        _kill(self.pids())
        self.freeze(False)

    async def dissolve(self) -> None:
        """Remove the group. The kernel needs a moment after the processes were killed."""
        for pause in (0.0, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0):
            if self.remove():
                return
            self.kill()
            await asyncio.sleep(pause)

    def remove(self) -> bool:
        """False: a process is still in it."""
        self._made = [folder for folder in self._made if not _rmdir(folder)]
        return not self._made


def sweep(parent: Path, prefix: str) -> bool:
    """Kill and remove the groups of a dead host process, which start with its root's name. False: some are still there."""
    give_up_at = time.monotonic() + _SWEEP_TIMEOUT
    for folder in parent.glob(f"{prefix}-*"):
        while not _rmdir(folder):
            if time.monotonic() > give_up_at:
                return False
            _try(folder / "freezer.state", "THAWED")
            if not _try(folder / "cgroup.kill", 1):
                _kill(_pids(folder))
            time.sleep(0.005)
    return True


def sweep_forgotten(parents: Parents, prefix: str) -> None:
    """Remove old empty groups, also of roots that are gone. The kernel refuses to remove a group that has processes."""
    for parent in parents.folders:
        for folder in parent.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > _NEW:
                    folder.rmdir()


def _unified(mounts: dict[str, tuple[str, Path]], own: dict[str, str]) -> tuple[Path | None, bool]:
    """Where version 2 groups can be made, and whether they limit anything: below our own group or beside it, because a group
    that has processes cannot delegate controllers."""
    mine = _below(mounts, own, "")
    if mine is None:
        return None, False
    for folder in (mine, mine.parent):
        if not (folder / "cgroup.controllers").exists() or _writable(folder) is None:
            continue
        delegated = folder / "cgroup.subtree_control"
        if folder == mine and not set(_words(delegated)) >= _WANTED:  # only our own group is changed
            _try(delegated, "+memory +pids")
            _try(delegated, "+cpu")
        if set(_words(delegated)) >= _WANTED:
            return folder, True
    return _writable(mine), False


def _mounts(text: str) -> dict[str, tuple[str, Path]]:
    """Controller (version 2: the empty name) -> the mounted part of the hierarchy, and its mount point."""
    found: dict[str, tuple[str, Path]] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split()[:3]
        if kind == "cgroup2":
            found.setdefault("", (root, Path(point)))
        elif kind == "cgroup":
            for name in options.split(","):
                found.setdefault(name, (root, Path(point)))
    return found


def _own(text: str) -> dict[str, str]:
    """Controller -> the path of our own group."""
    rows = [line.split(":", 2) for line in text.splitlines()]
    return {name: path for _, names, path in rows for name in names.split(",")}


def _below(mounts: dict[str, tuple[str, Path]], own: dict[str, str], name: str) -> Path | None:
    """The folder of our own group. Only a part of the hierarchy may be mounted."""
    if name not in mounts or name not in own:
        return None
    root, point = mounts[name]
    path = own[name]
    if path.startswith("/.."):
        return None
    inner = os.path.relpath(path, root)
    folder = point if inner == "." or inner.startswith("..") else point / inner
    return folder if folder.is_dir() else None


def _writable(folder: Path | None) -> Path | None:
    """The folder if groups can be made in it. Tried, because /sys may be mounted read-only."""
    if folder is None or not os.access(folder / "cgroup.procs", os.W_OK):
        return None
    trial = folder / f"clicket-trial-{os.getpid()}-{time.monotonic_ns()}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError:
        return None
    return folder


def _write(path: Path, value: int | str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def _try(path: Path, value: int | str) -> bool:
    try:
        _write(path, value)
    except OSError:
        return False
    return True


def _rmdir(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else None


def _counter(path: Path, name: str) -> int:
    words = _words(path)
    return int(words[words.index(name) + 1]) if name in words else 0


def _pids(folder: Path) -> list[int]:
    return [int(word) for word in _words(folder / "cgroup.procs")]


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
