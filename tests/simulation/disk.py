"""The file system under the SQLite of a seed: a VFS that knows what a power loss leaves of each file, and fails when it is told to.

The bytes are in real files in memory, and SQLite's locks and shared memory are the real ones. Every write, cut, sync and removal is also
a step of the recorded disk of `tests/crash/faults/disk.py`, whose rules decide what is left: data that a sync covered, and of later writes
any part, torn at sectors. SQLite's random numbers are the seed's, and nothing here sleeps.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw
from tests.crash.faults.disk import Disk, Entry, Op
from tests.simulation.loop import NODE, Node

__all__ = ["Armed", "Operation", "SimulatedDisk"]

_NAME = "simulated"
_CLOSES = frozenset({"close_last", "_call", "_close", "close"})
"""Functions that close a connection: SQLite ignores what fails then, and apsw would raise it."""
Operation = Literal["write", "sync", "truncate", "delete"]


class Armed(NamedTuple):
    """A fault that strikes operations until a time, `times` of them at most."""

    operation: Operation
    code: int
    until: float
    times: int
    files: str = ""
    """How the name of the file ends; empty: any."""
    grows: bool = False
    """Only writes behind the end of the file."""


class SimulatedDisk:
    """The disk of one machine. `life` counts its power losses: files that were opened in an earlier one do nothing more."""

    def __init__(self, folder: Path, chance: random.Random, now: Callable[[], float]) -> None:
        self.folder, self.now = folder, now
        self._chance = chance
        self.life = 0
        self.armed: list[Armed] = []
        self.struck = 0
        self.operations = 0
        self.power_ends_at: int | None = None
        """The number of the operation before which the power goes off."""
        self.lose_power: Callable[[], None] = lambda: None
        self.slow = 0.0
        self.pass_time: Callable[[float], None] = lambda seconds: None
        """A slow sync takes time, in which nothing else happens."""
        self._opened: dict[Node | None, list[apsw.Connection]] = {}
        self._begin()
        _use(self)

    def close(self) -> None:
        _leave(self)

    # What is durable.

    def _begin(self) -> None:
        """What is in the folder now is on the disk."""
        self._places, self._inodes, self._log = 0, dict[str, int](), Disk([])
        self._step(Op.ROOT, 0)
        for path in sorted(self.folder.iterdir()):
            if path.is_file():
                self._create(path.name)
                self._step(Op.WRITE, self._inodes[path.name], data=path.read_bytes())
                self._step(Op.SYNC, self._inodes[path.name], self._places)
        self._step(Op.SYNC, 0, self._places)

    def _step(self, op: Op, inode: int, at: int = 0, path: str = "", data: bytes = b"") -> None:
        self._log.step(Entry(self._places, op, inode, at, path, "", data))
        self._places += 1

    def _create(self, name: str) -> None:
        self._inodes[name] = self._places + 1
        self._step(Op.CREATE, self._inodes[name], path=f"/{name}")

    def keep(self, target: Path) -> None:
        """Write the files that any power loss leaves to `target`."""
        self._log.keep(target)

    def cut(self) -> None:
        """The power goes off: the files in the folder become what this power loss leaves of them."""
        self.life += 1
        self.armed, self.power_ends_at, self.slow = [], None, 0.0
        self._opened = {}  # they stay open, on files that have no name any more
        left = self.folder.with_name(f"{self.folder.name}-left")
        self._log.cut(self._chance, left)
        for path in self.folder.iterdir():
            if path.is_file():
                path.unlink()
        for path in left.iterdir():
            path.rename(self.folder / path.name)
        shutil.rmtree(left)
        self._begin()

    # What SQLite does.

    def opened(self, name: str) -> None:
        if name not in self._inodes:
            self._create(name)

    def before(self, operation: Operation, name: str, life: int, *, grows: bool = False) -> None:
        """Raises the error that this operation is to have."""
        if life != self.life:
            raise apsw.exception_for(apsw.SQLITE_IOERR)
        self.operations += 1
        if self.power_ends_at is not None and self.operations > self.power_ends_at:
            self.lose_power()
            raise apsw.exception_for(apsw.SQLITE_IOERR)
        for place, each in enumerate(self.armed):
            if each.operation != operation or not name.endswith(each.files) or (each.grows and not grows):
                continue
            if self.now() > each.until or each.times < 1 or _is_closing():
                continue
            self.armed[place] = each._replace(times=each.times - 1)
            self.struck += 1
            if operation == "sync":
                self._step(Op.SYNC_FAILED, self._inodes[name], self._places)
            raise apsw.exception_for(each.code)

    def written(self, name: str, at: int, data: bytes) -> None:
        self._step(Op.WRITE, self._inodes[name], at, data=data)

    def truncated(self, name: str, size: int) -> None:
        self._step(Op.TRUNCATE, self._inodes[name], size)

    def synced(self, name: str, *, with_names: bool) -> None:
        self._step(Op.SYNC, self._inodes[name], self._places)
        if with_names:
            self._step(Op.SYNC, 0, self._places)
        if self.slow:
            self.pass_time(self._chance.random() * self.slow)

    def deleted(self, name: str, *, with_names: bool) -> None:
        if name in self._inodes:
            self._step(Op.UNLINK, 0, path=f"/{name}")
            del self._inodes[name]
            if with_names:
                self._step(Op.SYNC, 0, self._places)

    def random_bytes(self, count: int) -> bytes:
        return self._chance.randbytes(count)

    # Connections.

    def connected(self, connection: apsw.Connection) -> None:
        self._opened.setdefault(NODE.get(), []).append(connection)

    def forget(self, node: Node) -> None:
        """The node is dead: its locks are gone, and nobody has copied its log."""
        for connection in self._opened.pop(node, ()):
            with contextlib.suppress(apsw.ConnectionClosedError):
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()


class _File(apsw.VFSFile):
    """Of SQLite, on a simulated disk."""

    def __init__(self, disk: SimulatedDisk, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk, self._name, self._life = disk, Path(str(path)).name, disk.life
        self._names_due = bool(flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL))
        """SQLite syncs the folder with the first sync of such a file."""
        disk.opened(self._name)

    def xWrite(self, data: Any, offset: int) -> None:  # of apsw, as the next ones
        disk = self._disk
        disk.before("write", self._name, self._life, grows=offset + len(data) > self.xFileSize())
        super().xWrite(data, offset)
        disk.written(self._name, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        self._disk.before("truncate", self._name, self._life)
        super().xTruncate(newsize)
        self._disk.truncated(self._name, newsize)

    def xSync(self, flags: int) -> None:
        self._disk.before("sync", self._name, self._life)
        self._disk.synced(self._name, with_names=self._names_due)
        self._names_due = False


class _Vfs(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(_NAME, "unix")
        self.disk: SimulatedDisk | None = None

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        if name is None or self.disk is None:
            return apsw.VFSFile("unix", name, flags)
        return _File(self.disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if self.disk is not None and Path(filename).exists():
            self.disk.before("delete", Path(filename).name, self.disk.life)
        super().xDelete(filename, syncdir)
        if self.disk is not None:
            self.disk.deleted(Path(filename).name, with_names=syncdir)

    def xRandomness(self, numbytes: int) -> bytes:
        return bytes(numbytes) if self.disk is None else self.disk.random_bytes(numbytes)

    def xSleep(self, microseconds: int) -> int:
        """A thread of the simulation has waited for a lock before its function runs."""
        return microseconds


_vfs: list[_Vfs] = []


def _use(disk: SimulatedDisk) -> None:
    if not _vfs:
        _vfs.append(_Vfs())
        apsw.connection_hooks.append(_connected)
    _vfs[0].disk = disk
    apsw.set_default_vfs(_NAME)
    apsw.randomness(0)  # SQLite's generator starts anew, from the seed


def _leave(disk: SimulatedDisk) -> None:
    if _vfs[0].disk is disk:
        apsw.set_default_vfs("unix")
        _vfs[0].disk = None


def _connected(connection: apsw.Connection) -> None:
    disk = _vfs[0].disk
    if disk is not None and connection.open_vfs == _NAME:
        disk.connected(connection)


def _is_closing() -> bool:
    frame = sys._getframe(3)  # of the function that called SQLite, behind this one, `before` and a method of the file
    return frame.f_code.co_name in _CLOSES
