"""A simulated disk that can lose power, replayed from the recorded steps of a program.

The model is strict: data is durable once an fsync of its file covered it, a name once an fsync of its folder did. Any
part of later writes may survive, in any order, torn at sector boundaries. A failed fsync has lost what it should have
covered: a later successful fsync does not bring it back.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

__all__ = ["Disk", "Entry", "Op", "read_log"]

_HEADER = struct.Struct("<IIIIQQQ")
_SECTOR = 512


class Op(IntEnum):
    ROOT = 1
    CREATE = 2
    WRITE = 3
    TRUNCATE = 4
    SYNC = 5
    SYNC_FAILED = 6
    RENAME = 7
    UNLINK = 8
    MKDIR = 9


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of the program. `place` is its position in the log."""

    place: int
    op: Op
    inode: int
    at: int
    """Of a write: the offset; of a cut: the new size; of a sync: up to which place it covers."""
    path: str
    other: str
    data: bytes


def read_log(path: Path) -> list[Entry]:
    """Every step, in the order in which they took effect."""
    return list(_entries(path.read_bytes()))


def _entries(log: bytes) -> Iterator[Entry]:
    place = 0
    while place < len(log):
        op, path_size, other_size, _, inode, at, data_size = _HEADER.unpack_from(log, place)
        path_end = place + _HEADER.size + path_size
        data_at = path_end + other_size
        path, other = log[path_end - path_size : path_end].decode(), log[path_end:data_at].decode()
        yield Entry(place, Op(op), inode, at, path, other, log[data_at : data_at + data_size])
        place = data_at + data_size


@dataclass(slots=True)
class _File:
    safe: bytearray = field(default_factory=bytearray)
    """What survives any power loss."""
    pending: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class _Folder:
    safe: dict[str, int] = field(default_factory=dict)
    now: dict[str, int] = field(default_factory=dict)
    pending: list[tuple[int, dict[str, int | None]]] = field(default_factory=list)
    """Places, and the names that changed there: all of one step or none."""


class Disk:
    """`play` the log up to some place, then `cut` the power any number of times: each time another part survives."""

    def __init__(self, log: list[Entry], *, seed: int = 0) -> None:
        self._log = log
        self._next = 0
        self._chance = random.Random(seed)
        self._nodes: list[_File | _Folder] = []
        self._inodes: dict[int, int] = {}
        """The node that has an inode's number now: numbers of removed files are given out again."""
        self._folders: dict[str, _Folder] = {}
        self._root: _Folder | None = None

    def play(self, until: int) -> None:
        """Apply every step before the place `until`."""
        while self._next < len(self._log) and self._log[self._next].place < until:
            self.step(self._log[self._next])
            self._next += 1

    def step(self, entry: Entry) -> None:
        """Apply one step of a program that runs now."""
        match entry.op:
            case Op.ROOT:
                if self._root is None:
                    self._root = self._folders[entry.path] = _Folder()
                    self._new(entry.inode, self._root)
            case Op.CREATE:
                self._name(entry, {entry.path: self._new(entry.inode, _File())})
            case Op.MKDIR:
                self._folders[entry.path] = _Folder()
                self._name(entry, {entry.path: self._new(entry.inode, self._folders[entry.path])})
            case Op.UNLINK:
                self._name(entry, {entry.path: None})
            case Op.RENAME:
                name = entry.path.rpartition("/")[2]
                self._name(entry, {entry.other: self._folder(entry.path).now[name], entry.path: None})
            case Op.WRITE | Op.TRUNCATE:
                file = self._nodes[self._inodes[entry.inode]]
                assert isinstance(file, _File)
                file.pending.append(entry)
            case Op.SYNC:
                self._sync(self._nodes[self._inodes[entry.inode]], entry.at)
            case Op.SYNC_FAILED:
                self._lose(self._nodes[self._inodes[entry.inode]], entry.at)

    def _new(self, inode: int, node: _File | _Folder) -> int:
        self._nodes.append(node)
        self._inodes[inode] = len(self._nodes) - 1
        return self._inodes[inode]

    def _folder(self, path: str) -> _Folder:
        return self._folders[path.rpartition("/")[0]]

    def _name(self, entry: Entry, changes: dict[str, int | None]) -> None:
        (folder,) = {id(self._folder(path)): self._folder(path) for path in changes}.values()  # one folder at a time
        names = {path.rpartition("/")[2]: number for path, number in changes.items()}
        folder.pending.append((entry.place, names))
        _rename(folder.now, names)

    def _sync(self, node: _File | _Folder, covered: int) -> None:
        if isinstance(node, _File):
            for entry in node.pending:
                if entry.place < covered:
                    _apply(node.safe, entry)
            node.pending = [entry for entry in node.pending if entry.place >= covered]
        else:
            for place, names in node.pending:
                if place < covered:
                    _rename(node.safe, names)
            node.pending = [(place, names) for place, names in node.pending if place >= covered]

    def _lose(self, node: _File | _Folder, covered: int) -> None:
        if isinstance(node, _File):
            lost = [entry for entry in node.pending if entry.place < covered]
            node.pending = node.pending[len(lost) :]
            node.safe = _survivor(node.safe, lost, self._chance)

    def cut(self, chance: random.Random, target: Path) -> None:
        """Write the files that survive the power loss to `target`."""
        assert self._root is not None
        self._write(self._root, chance, target)

    def keep(self, target: Path) -> None:
        """Write what survives any power loss to `target`."""
        assert self._root is not None
        self._write(self._root, None, target)

    def _write(self, folder: _Folder, chance: random.Random | None, target: Path) -> None:
        target.mkdir(exist_ok=True)
        names = dict(folder.safe)
        if chance is not None:
            share = chance.choice((0.0, 0.5, 1.0))
            for _, changes in folder.pending:
                if chance.random() < share:
                    _rename(names, changes)
        for name, number in sorted(names.items()):
            node = self._nodes[number]
            if isinstance(node, _Folder):
                self._write(node, chance, target / name)
            else:
                content = node.safe if chance is None else _survivor(node.safe, node.pending, chance)
                (target / name).write_bytes(content)


def _rename(names: dict[str, int], changes: dict[str, int | None]) -> None:
    for name, number in changes.items():
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


def _apply(content: bytearray, entry: Entry) -> None:
    if entry.op is Op.TRUNCATE:
        del content[entry.at :]
        content.extend(bytes(entry.at - len(content)))
        return
    if len(content) < entry.at:
        content.extend(bytes(entry.at - len(content)))
    content[entry.at : entry.at + len(entry.data)] = entry.data


def _survivor(safe: bytearray, later: list[Entry], chance: random.Random) -> bytearray:
    """A file after a power loss: its durable part, and of each later step all, nothing, or some sectors."""
    content = bytearray(safe)
    share = chance.choice((0.0, 0.3, 0.7, 0.95, 1.0))
    for entry in later:
        dice = chance.random()
        if dice < share * 0.8 or share == 1.0:
            _apply(content, entry)
        elif dice < share and entry.op is Op.WRITE:
            _tear(content, entry, chance)
    return content


def _tear(content: bytearray, entry: Entry, chance: random.Random) -> None:
    """Some sectors of a write survive. Where the file grew over a lost sector, it has the disk's old content."""
    at, end = entry.at, entry.at + len(entry.data)
    junk = chance.choice((bytes(_SECTOR), chance.randbytes(_SECTOR)))
    while at < end:
        stop = min((at // _SECTOR + 1) * _SECTOR, end)
        if chance.random() < 0.5:
            if len(content) < at:
                content.extend((junk * ((at - len(content)) // _SECTOR + 1))[: at - len(content)])
            content[at:stop] = entry.data[at - entry.at : stop - entry.at]
        at = stop
