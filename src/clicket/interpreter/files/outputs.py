"""Files that a program made. The folder is the program's: every step is by directory descriptor, no link is followed, and
nothing but a plain file with one name is ever opened."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from clicket.bridge import Workers
from clicket.errors import ClicketError
from clicket.interpreter.files.artifacts import ArtifactStore
from clicket.interpreter.result import File, Skipped

__all__ = [
    "FOLDER",
    "CollectedFiles",
    "FolderScan",
    "OutputLimits",
    "Signature",
    "look",
    "open_below",
    "readable_name",
    "signature",
    "take",
]

Signature = tuple[int, int, int, int]
"""Inode, size and both times: if they are the same, so is the file."""

_PIECE = 1024 * 1024
_FEW = 256
"""Entries that are looked at on the loop; more is a thread's work."""
_SMALL = 256 * 1024
_AT_ONCE = 10
"""Small files that are taken before others have their turn."""
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints"})
_IGNORED_AT_TOP = frozenset({".cache", ".config", ".local", ".matplotlib"})
"""Where libraries keep their own things in a home folder."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder is opened whose owner nobody knows."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MAX_SKIPPED = 50
_SETTLED = 2_000_000_000
"""Nanoseconds after which a folder's time of change tells whether it changed again: the coarsest clocks of file systems step
by that much."""
_SPECIAL = (
    (stat.S_ISDIR, "a folder that the program has shut cannot be looked into"),
    (stat.S_ISLNK, "a link is not followed"),
    (stat.S_ISFIFO, "a pipe is no file to keep"),
    (stat.S_ISSOCK, "a socket is no file to keep"),
)


class OutputLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a run may bring out."""

    count: int = 100
    each: int = 64 * 1024 * 1024
    whole: int = 128 * 1024 * 1024
    depth: int = 8
    entries: int = 10_000


class _Refused(Exception):
    """This one is not taken."""


class Entry(msgspec.Struct, frozen=True):
    mode: int
    links: int
    signature: Signature


class FolderScan(msgspec.Struct, kw_only=True):
    """One look at a whole folder. `cut` says why it is not the whole."""

    entries: dict[str, Entry] = {}
    seen: int = 0
    empty: bool = True
    """But for what is ignored."""
    cut: str = ""

    @property
    def signatures(self) -> dict[str, Signature]:
        return {name: entry.signature for name, entry in self.entries.items()}


class CollectedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a run brought out, and the folder as it is now, for the next run to compare with."""

    files: tuple[File, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    signatures: dict[str, Signature] = {}
    empty_at: int | None = None
    """The folder's time of change, when there was nothing in it: as long as that stays, there is nothing."""


def signature(status: os.stat_result) -> Signature:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def readable_name(name: str) -> str:
    """A file's name as text that can be shown and sent, whatever bytes and control characters it has."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


@contextmanager
def open_below(root: int, parts: tuple[str, ...], flags: int = _FILE) -> Iterator[int]:
    """A descriptor of what lies below `root`, no step of the way being a link."""
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


def look(root: int, caps: OutputLimits, entries: int | None = None) -> FolderScan:
    """Everything in the folder, links and pipes too, up to the caps."""
    found = FolderScan(entries={})
    _look_below(root, (), None, found, caps, caps.entries if entries is None else entries)
    return found


def _look_below(
    root: int, parts: tuple[str, ...], itself: Entry | None, found: FolderScan, caps: OutputLimits, entries: int
) -> None:
    folders: dict[str, Entry] = {}
    try:
        with open_below(root, (*parts, "."), FOLDER) as fd, os.scandir(fd) as listing:
            for item in listing:
                found.seen += 1
                if found.seen > entries:
                    found.empty = False
                    found.cut = f"only {entries:,} entries of the folder are looked at"
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
        found.empty = False  # who knows
        if itself is not None:  # its owner shut it: it is told like a file that is not taken
            found.entries["/".join(parts)] = itself
        return
    except OSError:
        found.empty = False
        return  # it went away
    for folder, entry in folders.items():
        if len(parts) + 1 >= caps.depth:
            found.cut = f"folders more than {caps.depth} deep are not looked at"
        elif not found.cut:
            _look_below(root, (*parts, folder), entry, found, caps, entries)


async def take(
    root: int,
    before: Mapping[str, Signature],
    store: ArtifactStore,
    workers: Workers,
    caps: OutputLimits | None = None,
    empty_at: int | None = None,
) -> CollectedFiles:
    """Keep each file that is new or changed since `before`, in the order of their names."""
    caps = caps or OutputLimits()
    changed_at = os.stat(root).st_ctime_ns
    if changed_at == empty_at:
        return CollectedFiles(empty_at=empty_at)
    settled = time.time_ns() - changed_at > _SETTLED
    after = look(root, caps, min(_FEW, caps.entries))
    if after.cut and caps.entries > _FEW:
        after = await workers.run(lambda: look(root, caps))
    files: list[File] = []
    skipped: list[Skipped] = []
    left = caps.whole
    for number, (name, entry) in enumerate(sorted(after.entries.items()), 1):
        if before.get(name) == entry.signature:
            continue
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        try:
            _judge(name, entry, caps, len(files), left)
            taken = await _keep(root, name, entry.signature[1], caps.each, store, workers)
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


async def _keep(root: int, name: str, size: int, most: int, store: ArtifactStore, workers: Workers) -> File:
    if size > _SMALL:
        pieces, digest = await workers.run(lambda: _read(root, name, most))
    else:
        pieces, digest = _read(root, name, most)
    artifact = await store.put(pieces)
    return File(name=name, size=sum(map(len, pieces)), sha256=digest, artifact=artifact)


def _judge(name: str, entry: Entry, caps: OutputLimits, count: int, left: int) -> None:
    """Refuse what the look has shown not to be a file to take."""
    size = entry.signature[1]
    if not stat.S_ISREG(entry.mode):
        raise _Refused(next((why for is_it, why in _SPECIAL if is_it(entry.mode)), "a device is no file to keep"))
    if entry.links != 1:
        raise _Refused("a file with more than one name (a hard link) is not taken")
    if readable_name(name) != name:
        raise _Refused("its name is not plain UTF-8 text; give it another one")
    if count >= caps.count:
        raise _Refused(f"a run may bring out {caps.count} files; put them in one archive")
    if size > caps.each:
        raise _Refused(f"it has {size:,} bytes, and a file may have {caps.each:,}")
    if size > left:
        raise _Refused(f"all files of a run together may have {caps.whole:,} bytes")


def _read(root: int, name: str, most: int) -> tuple[list[bytes], str]:
    """The bytes and their hash. What is opened is judged again: it may be another thing by now."""
    pieces: list[bytes] = []
    digest = hashlib.sha256()
    try:
        with open_below(root, tuple(name.split("/"))) as fd:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise _Refused("it was replaced while it was looked at")
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
