"""The engines of a set-up. The index is opened when it is first searched, off the loop, and anew when its file is another one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from clicket.errors import UsageError
from clicket.search.engines.tasks import run_in_thread
from clicket.search.index.index import Index
from clicket.search.tool.options import Setup

__all__ = ["NoIndex", "Shelf", "edition_of"]


class NoIndex(UsageError):
    """There is nothing to search in. The tool itself is well: once there is an index it works."""

    code = "tool_error"
    blames_tool = False


class _Held:
    """An index that is open."""

    __slots__ = ("filled", "index", "users", "which")

    def __init__(self, index: Index, which: tuple[int, int]) -> None:
        self.index = index
        self.which = which
        """Which file it was when it was opened."""
        self.users = 0
        self.filled = False


class Shelf:
    """Of one event loop. What it opened it closes; engines that were given it leaves as they are."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._now: _Held | None = None
        self._open: list[_Held] = []
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def engines(self) -> AsyncIterator[dict[str, Any]]:
        """As options of a search, for as long as it goes on."""
        setup = self._setup
        if setup.engine is not None:
            yield {"engine": setup.engine}
        elif not setup.needs_index:
            yield {"engines": setup.engines}
        else:
            async with self._used() as index:
                several = [index if isinstance(one, str) else one for one in setup.engines]
                yield {"engines": several} if several else {"engine": index}

    async def close(self) -> None:
        held, self._open, self._now = self._open, [], None
        for one in held:
            await run_in_thread(one.index.close)

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[Index]:
        """The index of the file as it is now. One whose file was replaced is closed when its last search has ended."""
        held = await self._opened()
        held.users += 1
        try:
            held.filled = held.filled or held.index.count > 0  # once: whoever counts may have to wait for a search
            if not held.filled:
                raise NoIndex(
                    f"There is nothing to search in: the index {self._setup.index} is empty. Fill it with: clicket index FOLDER."
                )
            yield held.index
        finally:
            held.users -= 1
            for old in [one for one in self._open if one is not self._now and not one.users]:
                self._open.remove(old)
                await run_in_thread(old.index.close)

    async def _opened(self) -> _Held:
        path = self._setup.index
        async with self._opening:
            try:
                found = os.stat(path)
            except OSError:
                raise NoIndex(
                    f"There is nothing to search in: there is no index {path}. Make one with: clicket index FOLDER. Or give an "
                    "engine: deep_search.tool(engine=…)."
                ) from None
            which = (found.st_dev, found.st_ino)
            if self._now is None or self._now.which != which:
                index = await run_in_thread(lambda: Index.open(path, embedder=self._setup.embedder))
                self._now = _Held(index, which)
                self._open.append(self._now)
            return self._now


def edition_of(engine: Any) -> str:
    """What an engine says about the state of its documents (`revision`), or when its file was changed; empty: nothing is known."""
    told = getattr(engine, "revision", None)
    if isinstance(told, str | int):
        return str(told)
    path = engine if isinstance(engine, str) else getattr(engine, "path", None)
    return ".".join(map(_changed, (path, f"{path}-wal"))) if isinstance(path, str) else ""


def _changed(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return (
        f"{found.st_mtime_ns:x}-{found.st_size:x}" if found.st_size else ""
    )  # a log is there, and empty, while it is open
