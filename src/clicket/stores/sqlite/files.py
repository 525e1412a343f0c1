"""Artifacts as files named by the hash of their content. A name that is not a hash never reaches the file system."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from clicket import system
from clicket.errors import NotFound, StoreUnavailable
from clicket.system.private_files import make_folder, opener

__all__ = ["ArtifactFiles", "sync"]

_NAME = re.compile(r"sha256-([0-9a-f]{2})([0-9a-f]{62})")
_YOUNG = 3600.0


class ArtifactFiles:
    """One folder, split by the first two digits. `sync`: files are on the disk before they are named in the journal."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self.folder = folder
        self.sync = sync
        self._synced: set[Path] = set()

    def path(self, name: str) -> Path:
        match = _NAME.fullmatch(name)
        if match is None:
            raise NotFound(f"{name!r} is not the name of an artifact; names look like sha256-… with 64 hex digits.")
        return self.folder / match[1] / match[2]

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError):  # there is none, or a sweep has just taken it
            os.utime(path)  # young again: a sweep that is under way must not take it
            if self.sync:  # the process that wrote it may not have waited for the disk
                sync(path)
                self._sync_folders(path.parent)
            return
        partial = path.with_name(f".{system.random_hex(16)}")
        try:
            make_folder(path.parent)
            with open(partial, "xb", opener=opener) as file:
                file.writelines(chunks)
                if self.sync:
                    file.flush()
                    os.fsync(file.fileno())
            partial.replace(path)
            if self.sync:
                self._sync_folders(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise StoreUnavailable(f"{self.folder}: an artifact could not be written: {error.strerror}.") from error

    def _sync_folders(self, folder: Path) -> None:
        """The name of a file is safe when its folder is; the folder's own name needs to be made so only once."""
        sync(folder)
        if folder not in self._synced:
            sync(self.folder)
            sync(self.folder.parent)
            self._synced.add(folder)

    def read(self, name: str, start: int, end: int | None) -> bytes:
        try:
            with self.path(name).open("rb") as file:
                file.seek(start)
                return file.read(-1 if end is None else max(end - start, 0))
        except FileNotFoundError:
            raise NotFound(f"there is no artifact {name!r}; it may have been swept with its call.") from None
        except OSError as error:
            raise StoreUnavailable(f"{self.folder}: an artifact could not be read: {error.strerror}.") from error

    def sweep(self, kept: set[str]) -> tuple[int, int]:
        """Remove files that nothing keeps, unless they are young: their call may be about to be written."""
        paths = self.folder.glob("??/*")
        return _remove(path for path in paths if f"sha256-{path.parent.name}{path.name}" not in kept)

    def remove(self, names: Iterable[str], *, dry: bool = False) -> tuple[int, int]:
        """Remove these files, unless they are young; how many there are, and their bytes."""
        return _remove((self.path(name) for name in names if _NAME.fullmatch(name)), dry=dry)

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob("??/*"))


def _remove(paths: Iterable[Path], *, dry: bool = False) -> tuple[int, int]:
    count = freed = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            facts = path.stat()
            if facts.st_mtime < system.now() - _YOUNG:
                if not dry:
                    path.unlink()
                count, freed = count + 1, freed + facts.st_size
    return count, freed


def sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
