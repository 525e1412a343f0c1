"""Finds the files that a program made or changed, and stores them as artifacts.

The program controls the folder: each path component is opened by descriptor, no link is followed, and only regular files with one
name are read.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from clicket.errors import ClicketError
from clicket.interpreter.files.artifacts import ArtifactStore
from clicket.interpreter.result import File, Skipped
from clicket.system.bridge import ThreadPool

__all__ = [
    "FOLDER",
    "CollectedFiles",
    "FolderScan",
    "OutputLimits",
    "Signature",
    "collect",
    "open_below",
    "readable_name",
    "scan",
    "signature",
]

Signature = tuple[int, int, int, int]
"""Inode, size, mtime and ctime: if they are equal, the file is unchanged."""

_PIECE = 1024 * 1024
_FEW = 256
"""Up to this many entries are scanned on the event loop; more in a thread."""
_SMALL = 256 * 1024
_AT_ONCE = 10
"""Small files that are stored before the event loop gets a turn."""
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints"})
_IGNORED_AT_TOP = frozenset({".cache", ".config", ".local", ".matplotlib"})
"""Folders of libraries in a home folder."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening a folder of the program."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MAX_SKIPPED = 50
_SETTLED = 2_000_000_000
"""Nanoseconds after which an unchanged ctime proves an unchanged folder: the coarsest resolution of file systems."""
_SPECIAL = (
    (stat.S_ISDIR, "the program has removed the permission to read this folder"),
    (stat.S_ISLNK, "links are not followed"),
    (stat.S_ISFIFO, "it is a pipe, not a file"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
)


class OutputLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may store: number of files, bytes of each and of all; and how far its folder is scanned."""

    count: int = 100
    each: int = 64 * 1024 * 1024
    whole: int = 128 * 1024 * 1024
    depth: int = 8
    entries: int = 10_000


class _Refused(Exception):
    """This file is not stored."""


class Entry(msgspec.Struct, frozen=True):
    mode: int
    links: int
    signature: Signature


class FolderScan(msgspec.Struct, kw_only=True):
    """The content of a whole folder. `cut` says why it is incomplete."""

    entries: dict[str, Entry] = {}
    seen: int = 0
    empty: bool = True
    """Ignored entries do not count."""
    cut: str = ""

    @property
    def signatures(self) -> dict[str, Signature]:
        return {name: entry.signature for name, entry in self.entries.items()}


class CollectedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a run stored, and the folder's state, for the next run to compare with."""

    files: tuple[File, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    signatures: dict[str, Signature] = {}
    empty_at: int | None = None
    """The ctime of an empty folder: while it is the same, the folder is still empty."""


def signature(status: os.stat_result) -> Signature:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def readable_name(name: str) -> str:
    """A file name as printable text, whatever bytes and control characters it has."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


@contextmanager
def open_below(root: int, parts: tuple[str, ...], flags: int = _FILE) -> Iterator[int]:
    """A descriptor of a path below `root`. Raises OSError if any component is a link."""
    at = root
    try:
        for index, part in enumerate(parts):
            below = os.open(part, flags if index == len(parts) - 1 else FOLDER, dir_fd=at)
            if at != root:
                os.close(at)
            at = below
        yield at
    finally:
        if at != root:
            os.close(at)


def scan(root: int, limits: OutputLimits, entries: int | None = None) -> FolderScan:
    """Everything in the folder, also links and pipes, up to the limits."""
    found = FolderScan(entries={})
    _scan_below(root, (), None, found, limits, limits.entries if entries is None else entries)
    return found


def _scan_below(
    root: int, parts: tuple[str, ...], itself: Entry | None, found: FolderScan, limits: OutputLimits, entries: int
) -> None:
    folders: dict[str, Entry] = {}
    try:
        with open_below(root, (*parts, "."), FOLDER) as fd, os.scandir(fd) as listing:
            for item in listing:
                found.seen += 1
                if found.seen > entries:
                    found.empty = False
                    found.cut = f"only {entries:,} entries of the folder are scanned"
                    return
                if item.name in _IGNORED or (not parts and item.name in _IGNORED_AT_TOP):
                    continue
                found.empty = False
                try:
                    status = item.stat(follow_symlinks=False)
                except OSError:
                    continue  # it went away
                entry = Entry(status.st_mode, status.st_nlink, signature(status))
                if stat.S_ISDIR(status.st_mode):
                    folders[item.name] = entry
                else:
                    found.entries["/".join((*parts, item.name))] = entry
    except PermissionError:
        found.empty = False  # unknown
        if itself is not None:  # reported like a file that is not stored
            found.entries["/".join(parts)] = itself
        return
    except OSError:
        found.empty = False
        return  # it went away
    for folder, entry in folders.items():
        if len(parts) + 1 >= limits.depth:
            found.cut = f"folders more than {limits.depth} levels deep are not scanned"
        elif not found.cut:
            _scan_below(root, (*parts, folder), entry, found, limits, entries)


async def collect(
    root: int,
    before: Mapping[str, Signature],
    store: ArtifactStore,
    thread_pool: ThreadPool,
    limits: OutputLimits | None = None,
    empty_at: int | None = None,
) -> CollectedFiles:
    """Store each file that is new or changed since `before`, ordered by name."""
    limits = limits or OutputLimits()
    changed_at = os.stat(root).st_ctime_ns
    if changed_at == empty_at:
        return CollectedFiles(empty_at=empty_at)
    settled = time.time_ns() - changed_at > _SETTLED
    after = scan(root, limits, min(_FEW, limits.entries))
    if after.cut and limits.entries > _FEW:
        after = await thread_pool.run(lambda: scan(root, limits))
    files: list[File] = []
    skipped: list[Skipped] = []
    left = limits.whole
    for number, (name, entry) in enumerate(sorted(after.entries.items()), 1):
        if before.get(name) == entry.signature:
            continue
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        try:
            _check(name, entry, limits, len(files), left)
            taken = await _store(root, name, entry.signature[1], limits.each, store, thread_pool)
        except (_Refused, ClicketError) as refusal:
            skipped.append(Skipped(what=readable_name(name), why=str(refusal)))
        else:
            left -= taken.size
            files.append(taken)
    if after.cut:
        skipped.append(Skipped(what="the rest of the folder", why=after.cut))
    return CollectedFiles(
        files=tuple(files),
        skipped=_bounded(skipped),
        signatures=after.signatures,
        empty_at=changed_at if settled and after.empty else None,
    )


async def _store(root: int, name: str, size: int, most: int, store: ArtifactStore, thread_pool: ThreadPool) -> File:
    if size > _SMALL:
        pieces, digest = await thread_pool.run(lambda: _read(root, name, most))
    else:
        pieces, digest = _read(root, name, most)
    artifact = await store.put(pieces)
    return File(name=name, size=sum(map(len, pieces)), sha256=digest, artifact=artifact)


def _check(name: str, entry: Entry, limits: OutputLimits, count: int, left: int) -> None:
    """Raise `_Refused` for what is not a regular file within the limits."""
    size = entry.signature[1]
    if not stat.S_ISREG(entry.mode):
        raise _Refused(next((why for is_it, why in _SPECIAL if is_it(entry.mode)), "it is a device, not a file"))
    if entry.links != 1:
        raise _Refused("a file with more than one name (a hard link) is not stored")
    if readable_name(name) != name:
        raise _Refused("its name is not plain UTF-8 text; give it another one")
    if count >= limits.count:
        raise _Refused(f"a run may store {limits.count} files; put them in one archive")
    if size > limits.each:
        raise _Refused(f"it has {size:,} bytes, and a file may have {limits.each:,}")
    if size > left:
        raise _Refused(f"all files of a run together may have {limits.whole:,} bytes")


def _read(root: int, name: str, most: int) -> tuple[list[bytes], str]:
    """The bytes and their hash. The opened file is checked again, because the program may have replaced it."""
    pieces: list[bytes] = []
    digest = hashlib.sha256()
    try:
        with open_below(root, tuple(name.split("/"))) as fd:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise _Refused("it was replaced during the scan")
            left = min(status.st_size, most)
            while left > 0 and (piece := os.read(fd, min(_PIECE, left))):
                pieces.append(piece)
                digest.update(piece)
                left -= len(piece)
    except OSError as error:
        raise _Refused(f"it cannot be read: {error.strerror}") from None
    return pieces, digest.hexdigest()


def _bounded(skipped: list[Skipped]) -> tuple[Skipped, ...]:
    if len(skipped) <= _MAX_SKIPPED:
        return tuple(skipped)
    more = Skipped(what=f"{len(skipped) - _MAX_SKIPPED} more", why="the list ends here")
    return (*skipped[:_MAX_SKIPPED], more)
