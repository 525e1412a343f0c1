"""Where files, pictures and long output of programs are stored: bytes, named by their hash."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from clicket.errors import NotFound, StoreUnavailable
from clicket.system.bridge import ThreadPool

__all__ = ["ARTIFACT", "ArtifactStore", "TemporaryArtifacts", "name_of"]

ARTIFACT = re.compile(r"sha256-[0-9a-f]{64}")
_SMALL = 256 * 1024
"""Up to this many bytes are written without a thread, which would take longer."""


class ArtifactStore(Protocol):
    """Stores bytes. `put` returns their name, `sha256-` and 64 hex digits; `get` raises `NotFound`."""

    async def put(self, pieces: bytes | Sequence[bytes]) -> str: ...
    async def get(self, name: str) -> bytes: ...


def name_of(pieces: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return f"sha256-{digest.hexdigest()}"


class TemporaryArtifacts:
    """A private temporary folder, removed by `close`. When it is full, the oldest artifacts are removed first."""

    def __init__(self, thread_pool: ThreadPool, *, max_size: int = 512 * 1024 * 1024, temp: Path | None = None) -> None:
        self.max_size = max_size
        self._thread_pool = thread_pool
        self._temp = temp
        self._folder: Path | None = None
        self._sizes: dict[str, int] = {}

    async def put(self, pieces: bytes | Sequence[bytes]) -> str:
        whole = [pieces] if isinstance(pieces, bytes) else pieces
        if isinstance(whole, list) and sum(map(len, whole)) <= _SMALL:  # other sequences may read from disk
            return self._put(whole)
        return await self._thread_pool.run(lambda: self._put(whole))

    async def get(self, name: str) -> bytes:
        if name not in self._sizes or self._folder is None:
            raise NotFound(
                f"artifact {name!r} is not stored here. Artifacts of a run are named in its result, and are stored until the "
                f"interpreter is closed or newer ones fill its {self.max_size:,} bytes."
            )
        path = self._folder / name
        try:
            return path.read_bytes() if self._sizes[name] <= _SMALL else await self._thread_pool.run(path.read_bytes)
        except OSError as error:
            raise NotFound(f"artifact {name!r} was stored and cannot be read any more: {error.strerror}.") from None

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None
        self._sizes.clear()

    def _put(self, pieces: Sequence[bytes]) -> str:
        name = name_of(pieces)
        size = sum(map(len, pieces))
        if name in self._sizes:
            self._sizes[name] = self._sizes.pop(name)  # stored again: it counts as new
            return name
        while self._sizes and sum(self._sizes.values()) + size > self.max_size:
            self._remove(next(iter(self._sizes)))
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="clicket-kept-", dir=self._temp))
            with (self._folder / name).open("wb") as file:
                file.writelines(pieces)
        except OSError as error:
            self._remove(name)
            raise StoreUnavailable(
                f"{size:,} bytes could not be stored in a temporary folder: {error.strerror}. Make room there, or give the "
                "interpreter another place with keep=."
            ) from None
        self._sizes[name] = size
        return name

    def _remove(self, name: str) -> None:
        self._sizes.pop(name, None)
        if self._folder is not None:
            (self._folder / name).unlink(missing_ok=True)
