"""The engines of a tool's set-up. The index is opened at the first search, in a thread, and again if its file was replaced."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.search.index.index import Index
from clicket.search.tool.options import Setup
from clicket.system.bridge import run_in_thread

__all__ = ["Engines", "NoIndex", "data_version_of"]


class NoIndex(UsageError):
    """There is no index, or it is empty. This does not count against the tool."""

    code = "tool_error"
    blames_tool = False


class _OpenIndex(msgspec.Struct, eq=False):
    index: Index
    file_id: tuple[int, int]
    """Device and inode of the file that was opened."""
    users: int = 0
    has_documents: bool = False


class Engines:
    """The engines of one event loop. It closes the indexes that it opened, not the engines that were given."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._current: _OpenIndex | None = None
        self._open: list[_OpenIndex] = []
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def options(self) -> AsyncIterator[dict[str, Any]]:
        """The engines as options of a search, for the duration of the search."""
        setup = self._setup
        if setup.engine is not None:
            yield {"engine": setup.engine}
        elif not setup.needs_index:
            yield {"engines": setup.engines}
        else:
            async with self._index() as index:
                several = [index if isinstance(one, str) else one for one in setup.engines]
                yield {"engines": several} if several else {"engine": index}

    async def close(self) -> None:
        opened, self._open, self._current = self._open, [], None
        for one in opened:
            await run_in_thread(one.index.close)

    @asynccontextmanager
    async def _index(self) -> AsyncIterator[Index]:
        """The index of the current file. An index whose file was replaced is closed when its last search has ended."""
        opened = await self._open_index()
        opened.users += 1
        try:
            # Counted once: counting may wait for another search.
            opened.has_documents = opened.has_documents or opened.index.count > 0
            if not opened.has_documents:
                raise NoIndex(
                    f"There is nothing to search in: the index {self._setup.index} is empty. Fill it with: clicket index FOLDER."
                )
            yield opened.index
        finally:
            opened.users -= 1
            for old in [one for one in self._open if one is not self._current and not one.users]:
                self._open.remove(old)
                await run_in_thread(old.index.close)

    async def _open_index(self) -> _OpenIndex:
        path = self._setup.index
        async with self._opening:
            try:
                found = os.stat(path)
            except OSError:
                raise NoIndex(
                    f"There is nothing to search in: there is no index {path}. Make one with: clicket index FOLDER. Or give an "
                    "engine: deep_search.tool(engine=…)."
                ) from None
            file_id = (found.st_dev, found.st_ino)
            if self._current is None or self._current.file_id != file_id:
                index = await run_in_thread(lambda: Index.open(path, embedder=self._setup.embedder))
                self._current = _OpenIndex(index, file_id)
                self._open.append(self._current)
            return self._current


def data_version_of(engine: Any) -> str:
    """The engine's `revision`, or the time and size of its file; empty if neither is known."""
    revision = getattr(engine, "revision", None)
    if isinstance(revision, str | int):
        return str(revision)
    path = engine if isinstance(engine, str) else getattr(engine, "path", None)
    return ".".join(map(_file_version, (path, f"{path}-wal"))) if isinstance(path, str) else ""


def _file_version(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return ""
    # SQLite leaves an empty log while the file is open; that is not a change.
    return f"{found.st_mtime_ns:x}-{found.st_size:x}" if found.st_size else ""
