"""Files beneath one folder, whatever the paths say: no path leads out of it, and no link is followed.

Each part of a path is opened by itself, relative to the folder before it, and never through a link; so a folder that is exchanged for a
link meanwhile leads nowhere. A file is written beside its place and then put there in one step: readers see the old one or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from clicket.errors import ClicketError, UsageError

__all__ = ["MISSING", "Entry", "FileMissing", "FileRefused", "Folder", "Parts", "digest_of", "text_of"]

MISSING = "none"
"""In place of the digest of a file that is not there."""
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
# Not blocking: opening a pipe would wait for its other end.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_MAX_PATH = 1_000
_LOOK = 8_192
_MAX_NAME = 240
_TEMPORARY = ".clicket-"
"""Begins the name of a file that is being written."""
Parts = tuple[str, ...]


class FileRefused(ClicketError):
    """A file or a path that cannot be used so. The model that named it reads why; it says nothing about the tool."""

    code = "file_refused"
    blames_tool = False


class FileMissing(FileRefused):
    """There is no such file or folder."""


class Entry(NamedTuple):
    """What a folder lists. `kind`: `file`, `folder`, `link` or `other`."""

    parts: Parts
    kind: str
    size: int

    @property
    def path(self) -> str:
        return "/".join(self.parts)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


class Folder:
    """`UsageError` if it is not there, or if this system cannot open paths part by part."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise UsageError("this system cannot open files without following links, which a folder for models needs.")
        self.root: Path = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise UsageError(f"{os.fspath(root)} is not a folder. Make it, or name another one.")

    @property
    def is_there(self) -> bool:
        return self.root.is_dir()

    def parts(self, path: str) -> Parts:
        """A path below the root, in parts; none: the root itself. `FileRefused` for one that could lead out of it."""
        if "\0" in path or len(path) > _MAX_PATH:
            raise FileRefused(f"{path[:100]!r} is not a path: it is too long, or has a NUL character")
        inside = f"{self.root}/"
        text = path.removeprefix(inside) if path.startswith(inside) else "." if path == str(self.root) else path
        if text.startswith(("/", "~")):
            raise FileRefused(f"{path!r} is outside of the folder: paths are relative to it, such as 'src/app.py'")
        found = tuple(part for part in text.split("/") if part not in ("", "."))
        if ".." in found:
            raise FileRefused(f"{path!r} has '..' in it: paths are relative to the folder, and do not leave it")
        if any(len(os.fsencode(part)) > _MAX_NAME or part.startswith(_TEMPORARY) for part in found):
            raise FileRefused(
                f"{path[:100]!r} is not a path that can be used here: a name in it is too long or reserved"
            )
        return found

    # Reading.

    @contextlib.contextmanager
    def opened(self, parts: Parts, *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder; `make`: with those that are missing."""
        fd = os.open(self.root, _FOLDER)
        try:
            for number, part in enumerate(parts):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                        _give(os.fstat(fd), part, dir_fd=fd)
                try:
                    inner = os.open(part, _FOLDER, dir_fd=fd)
                except OSError as error:
                    raise _refused(parts[: number + 1], error) from None
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def read(self, parts: Parts, most: int) -> bytes:
        """The bytes of a file of at most that many."""
        with self.opened(parts[:-1]) as folder:
            return self._read(folder, parts, most)[0]

    def _read(self, folder: int, parts: Parts, most: int) -> tuple[bytes, os.stat_result]:
        fd = self._open_file(folder, parts)
        try:
            found = os.fstat(fd)
            if found.st_size > most:
                raise FileRefused(f"{'/'.join(parts)!r} has {found.st_size:,} bytes, and {most:,} are allowed here")
            return _all_of(fd, most, parts), found
        finally:
            os.close(fd)

    def _open_file(self, folder: int, parts: Parts) -> int:
        path = "/".join(parts)
        if not parts:
            raise FileRefused("name a file: this is the folder itself")
        try:
            fd = os.open(parts[-1], _READ, dir_fd=folder)
        except OSError as error:
            raise _refused(parts, error) from None
        kind = os.fstat(fd).st_mode
        if stat.S_ISREG(kind):
            return fd
        os.close(fd)
        raise FileRefused(f"{path!r} is a {'folder' if stat.S_ISDIR(kind) else 'pipe or device'}, not a file")

    def listed(self, parts: Parts) -> list[Entry]:
        """What is in a folder, by name. Files that are being written are left out."""
        with self.opened(parts) as folder:
            return self._listed(folder, parts)

    def _listed(self, folder: int, parts: Parts) -> list[Entry]:
        found: list[Entry] = []
        for name in sorted(os.listdir(folder)):
            if name.startswith(_TEMPORARY):
                continue
            with contextlib.suppress(OSError):  # removed meanwhile
                seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
                found.append(Entry((*parts, name), _kind_of(seen.st_mode), seen.st_size))
        return found

    def walk(self, parts: Parts, skip: frozenset[str]) -> Iterator[Entry]:
        """The files below a folder, in the order of their paths; folders of the names in `skip` are left out."""
        waiting = [self.listed(parts)[::-1]]
        while waiting:
            if not waiting[-1]:
                waiting.pop()
                continue
            entry = waiting[-1].pop()
            if entry.kind == "file":
                yield entry
            elif entry.kind == "folder" and entry.parts[-1] not in skip:
                with contextlib.suppress(FileRefused, FileMissing, OSError):  # exchanged or removed meanwhile
                    waiting.append(self.listed(entry.parts)[::-1])

    def digest(self, parts: Parts, most: int) -> str:
        """Of a file's bytes; `MISSING` if it is not there."""
        try:
            return digest_of(self.read(parts, most))
        except FileMissing:
            return MISSING

    # Writing.

    def prepare(self, parts: Parts, data: bytes, mark: str) -> None:
        """Write the bytes beside their place, durably. `mark`: the same in each attempt, so that the next one writes over it."""
        with self.opened(parts[:-1], make=True) as folder:
            name = _temporary(mark)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            fd = os.open(name, _CREATE, 0o666, dir_fd=folder)
            try:
                old = os.fstat(folder)
                with contextlib.suppress(FileNotFoundError):
                    old = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
                _give(old, fd)
                if stat.S_ISREG(old.st_mode):
                    os.fchmod(fd, stat.S_IMODE(old.st_mode))
                _write_all(fd, data)
                os.fsync(fd)
            finally:
                os.close(fd)

    def commit(self, parts: Parts, mark: str, expected: str, most: int) -> str | None:
        """Put the prepared bytes in their place, if the file there still has the digest `expected`; else the digest that it has. One
        writer at a time: of several the others find a file that has changed."""
        with self.opened(parts[:-1]) as folder:
            temporary = _temporary(mark)
            if expected == MISSING:
                try:
                    os.link(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError:
                    return digest_of(self._read(folder, parts, most)[0])
                os.unlink(temporary, dir_fd=folder)
            else:
                try:
                    held = self._locked(folder, parts)
                except FileMissing:
                    return MISSING
                try:
                    found = digest_of(_all_of(held, most, parts))
                    if found != expected:
                        return found
                    os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
                finally:
                    os.close(held)
            os.fsync(folder)
        return None

    def _locked(self, folder: int, parts: Parts) -> int:
        """The file, locked against other writers of this kind, also in other processes."""
        import fcntl  # not on every system

        while True:
            fd = self._open_file(folder, parts)
            with contextlib.suppress(OSError):  # some file systems have no locks
                fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                here = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            except OSError:
                here = None
            if here is not None and os.path.samestat(here, os.fstat(fd)):
                return fd
            os.close(fd)  # another writer has put a new file there while this one waited

    def discard(self, parts: Parts, mark: str) -> None:
        """Remove prepared bytes, if there are any."""
        with contextlib.suppress(FileRefused, FileMissing, OSError), self.opened(parts[:-1]) as folder:
            os.unlink(_temporary(mark), dir_fd=folder)


def text_of(data: bytes, path: str) -> str:
    """The text of a file; refused if it is none."""
    if b"\0" in data[:_LOOK]:
        raise FileRefused(f"{path!r} is a binary file ({len(data):,} bytes), and only text can be read and edited here")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileRefused(
            f"{path!r} is not text in UTF-8 (byte {error.start:,} is not), so it cannot be read and edited here"
        ) from None


def _give(like: os.stat_result, what: int | str, dir_fd: int | None = None) -> None:
    """Let a new file or folder belong to the owner of another one. Only root may give files away."""
    with contextlib.suppress(OSError):
        os.chown(what, like.st_uid, like.st_gid, dir_fd=dir_fd)


def _temporary(mark: str) -> str:
    return f"{_TEMPORARY}{digest_of(mark.encode())[:24]}.tmp"


def _all_of(fd: int, most: int, parts: Parts) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(fd, 1 << 20):
        pieces.append(piece)
        size += len(piece)
        if size > most:  # it grew meanwhile
            raise FileRefused(f"{'/'.join(parts)!r} has more than {most:,} bytes")
    return b"".join(pieces)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _kind_of(mode: int) -> str:
    return (
        "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other"
    )


def _refused(parts: Parts, error: OSError) -> Exception:
    path = "/".join(parts)
    if error.errno == errno.ENOENT:
        return FileMissing(f"there is no {path!r} in the folder")
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return FileRefused(f"{path!r} is a link, and links are not followed: name the file itself")
    if error.errno == errno.ENOTDIR:
        return FileRefused(f"{path!r} is not a folder, or a link to one; links are not followed")
    return FileRefused(f"{path!r} cannot be opened: {error.strerror}")
