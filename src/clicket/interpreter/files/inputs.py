"""Writes the files that a run asks for into the work folder.

A name can refer to a file in the work folder, to an artifact, or to a file in one folder that the operator chose: never above
them, and never through a link. Writing replaces a link of that name, never its target.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from clicket.errors import NotFound, did_you_mean
from clicket.interpreter.files import outputs
from clicket.interpreter.files.artifacts import ARTIFACT, ArtifactStore
from clicket.interpreter.files.outputs import FOLDER, OutputLimits, Signature, open_below, readable_name
from clicket.system.bridge import ThreadPool

__all__ = ["FileRefused", "Inputs", "WorkFolder", "write_inputs"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1024 * 1024
_SMALL = 256 * 1024
_NAMED = OutputLimits(entries=500, depth=4)
"""Limits of the search for names to suggest."""


class FileRefused(Exception):
    """A file cannot be written. `kind` is the name of the matching Python exception."""

    def __init__(self, message: str, kind: str = "FileNotFoundError") -> None:
        super().__init__(message)
        self.kind = kind


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Names to look up, and contents from a Python caller: text, bytes, or a path to read."""

    file_names: tuple[str, ...] = ()
    files: dict[str, bytes | str | Path] = {}


class WorkFolder(Protocol):
    """The part of a sandbox process that is needed here."""

    @property
    def work_fd(self) -> int: ...
    @property
    def uid(self) -> int | None: ...


class _Write(msgspec.Struct, frozen=True, kw_only=True):
    """One file to write: its path, and its bytes or a function that opens them."""

    parts: tuple[str, ...]
    data: bytes | None = None
    source: Callable[[], int] | None = None


async def write_inputs(
    work: WorkFolder,
    inputs: Inputs,
    *,
    folder: Path | None,
    store: ArtifactStore,
    thread_pool: ThreadPool,
    each: int,
    whole: int,
) -> dict[str, Signature]:
    """Write all files and return their signatures. Raises `FileRefused` before anything is written."""
    writes = [_from_caller(name, value) for name, value in inputs.files.items()]
    for name in inputs.file_names:
        file = await _resolve(name, work, folder, store)
        if file is not None:
            writes.append(file)
            # Checked at once, so that a hundred big artifacts are not all loaded before they are refused.
            _check_sizes([(file, -1, len(file.data)) for file in writes if file.data is not None], each, whole)
    if not writes:
        return {}
    sizes = [len(file.data) for file in writes if file.data is not None]
    if all(file.source is None for file in writes) and sum(sizes) <= _SMALL:
        return _write_all(work, writes, each, whole)
    return await thread_pool.run(lambda: _write_all(work, writes, each, whole))


def _from_caller(name: str, value: bytes | str | Path) -> _Write:
    parts = _parts(name)
    if isinstance(value, Path):
        return _Write(parts=parts, source=lambda: _opened(value))
    return _Write(parts=parts, data=value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value))


async def _resolve(name: str, work: WorkFolder, folder: Path | None, store: ArtifactStore) -> _Write | None:
    """The file for an entry of `file_names`; None if it is in the work folder already."""
    target, _, artifact = name.rpartition("=")
    if ARTIFACT.fullmatch(artifact):
        try:
            return _Write(parts=_parts(target or artifact), data=await store.get(artifact))
        except NotFound as error:
            raise FileRefused(f"file_names: {error}") from None
    parts = _parts(name)
    if _is_file(work.work_fd, parts):
        return None
    if folder is not None:
        root = _folder(folder)
        try:
            if _is_file(root, parts):
                return _Write(parts=parts, source=lambda: _opened_below(folder, parts))
            known = sorted({*_names(work.work_fd), *_names(root)})
        finally:
            os.close(root)
    else:
        known = sorted(_names(work.work_fd))
    raise FileRefused(_unknown(name, known, folder is not None))


def _unknown(name: str, known: list[str], has_folder: bool) -> str:
    more = f" and {len(known) - 20} more" if len(known) > 20 else ""
    there = f"There is: {', '.join(known[:20])}{more}. Name one of these" if known else "No file is there yet: send it"
    where = "the session's folder or the folder of shared files" if has_folder else "the session's folder"
    return (
        f"file_names: there is no file {readable_name(name)!r} in {where}.{did_you_mean(name, known)} {there}, "
        "or name an artifact as 'data.csv=sha256-…'."
    )


def _parts(name: str) -> tuple[str, ...]:
    """The components of a relative path, without `.` and `..`."""
    parts = tuple(part for part in name.removeprefix("./").split("/"))
    plain = readable_name(name) == name and name.isprintable() and "\\" not in name
    if not plain or not all(parts) or any(part in (".", "..") or len(part.encode()) > 255 for part in parts):
        raise FileRefused(
            f"{readable_name(name)[:200]!r} is not a name for a file: use a plain relative name like 'data.csv' or "
            "'data/prices.csv', without '..' and without a leading '/'.",
            "ValueError",
        )
    if len(parts) > 8:
        raise FileRefused(f"{name[:200]!r} has more than 8 components: use a shorter path.", "ValueError")
    return parts


def _is_file(root: int, parts: tuple[str, ...]) -> bool:
    try:
        with open_below(root, parts) as fd:
            return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False


def _names(root: int) -> Iterator[str]:
    return (name for name, entry in outputs.scan(root, _NAMED).entries.items() if stat.S_ISREG(entry.mode))


def _folder(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the operator's own choice may be a link
    except OSError as error:
        raise FileRefused(f"the folder of shared files cannot be opened: {error.strerror}.") from None


def _opened_below(folder: Path, parts: tuple[str, ...]) -> int:
    root = _folder(folder)
    try:
        with open_below(root, parts) as fd:
            return os.dup(fd)
    except OSError as error:
        raise FileRefused(f"{'/'.join(parts)!r} cannot be read: {error.strerror}.") from None
    finally:
        os.close(root)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise FileRefused(f"files: {str(path)!r} cannot be read: {error.strerror}.") from None


def _write_all(work: WorkFolder, writes: Sequence[_Write], each: int, whole: int) -> dict[str, Signature]:
    sources: list[int] = []
    try:
        sized: list[tuple[_Write, int, int]] = []
        for file in writes:
            fd = -1
            if file.source is not None:
                sources.append(fd := file.source())
            sized.append((file, fd, _size(file, fd)))
        _check_sizes(sized, each, whole)
        return {"/".join(file.parts): _write(work, file, fd, size) for file, fd, size in sized}
    finally:
        for fd in sources:
            os.close(fd)


def _size(file: _Write, fd: int) -> int:
    if file.data is not None:
        return len(file.data)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(f"{'/'.join(file.parts)!r} is not a regular file.", "ValueError")
    return status.st_size


def _check_sizes(sized: Iterable[tuple[_Write, int, int]], each: int, whole: int) -> None:
    total = 0
    for file, _, size in sized:
        total += size
        if size > each:
            raise FileRefused(
                f"{'/'.join(file.parts)!r} has {size:,} bytes, and a file may have {each:,}: send a part of it, or "
                "raise the limit file_size.",
                "ValueError",
            )
    if total > whole:
        raise FileRefused(
            f"the files have {total:,} bytes together, and the work folder holds {whole:,}: send fewer, or raise the "
            "limit disk.",
            "ValueError",
        )


def _write(work: WorkFolder, file: _Write, source: int, size: int) -> Signature:
    name = "/".join(file.parts)
    try:
        _make_folders(work, file.parts[:-1])
        with open_below(work.work_fd, (*file.parts[:-1], "."), FOLDER) as folder:
            with suppress(FileNotFoundError):
                os.unlink(file.parts[-1], dir_fd=folder)
            fd = os.open(file.parts[-1], _NEW, 0o600, dir_fd=folder)
            try:
                _copy(fd, file.data, source, size)
                if work.uid is not None:
                    os.fchown(fd, work.uid, work.uid)
                return outputs.signature(os.fstat(fd))
            finally:
                os.close(fd)
    except OSError as error:
        raise FileRefused(f"{name!r} cannot be written to the work folder: {error.strerror}.", "OSError") from None


def _make_folders(work: WorkFolder, parts: tuple[str, ...]) -> None:
    for depth in range(len(parts)):
        with open_below(work.work_fd, (*parts[:depth], "."), FOLDER) as above:
            try:
                os.mkdir(parts[depth], 0o700, dir_fd=above)
            except FileExistsError:
                continue
            with open_below(above, (parts[depth],), FOLDER) as made:
                if work.uid is not None:
                    os.fchown(made, work.uid, work.uid)


def _copy(fd: int, data: bytes | None, source: int, size: int) -> None:
    """All of the data, or as many bytes of the source as were checked."""
    if data is not None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        return
    left = size
    while left > 0 and (piece := os.read(source, min(_PIECE, left))):
        _copy(fd, piece, -1, 0)
        left -= len(piece)
