"""The engines of a set-up. The index is opened when it is first searched, off the loop, and anew when its file is another one."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from clicket.errors import UsageError
from clicket.search.engines.adapting import off_loop
from clicket.search.index.index import Index
from clicket.search.tool.options import Setup

__all__ = ["NoIndex", "Shelf", "edition_of"]


class NoIndex(UsageError):
    """There is nothing to search in. The tool itself is well: once there is an index it works."""

    code = "tool_error"
    blames_tool = False


class Shelf:
    """Of one event loop. What it opened it closes; engines that were given it leaves as they are."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._index: tuple[tuple[int, int], Index] | None = None
        self._replaced: list[Index] = []
        self._filled = False
        self._opening = asyncio.Lock()

    async def engines(self) -> dict[str, Any]:
        """As options of a search."""
        setup = self._setup
        if setup.engine is not None:
            return {"engine": setup.engine}
        index = await self._opened() if setup.needs_index else None
        if not setup.engines:
            return {"engine": index}
        return {"engines": [index if isinstance(one, str) else one for one in setup.engines]}

    async def close(self) -> None:
        held, self._index = self._index, None
        replaced, self._replaced = self._replaced, []
        for index in (*replaced, *(() if held is None else (held[1],))):
            await off_loop(index.close)

    async def _opened(self) -> Index:
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
            if self._index is not None and self._index[0] == which:
                index = self._index[1]
            else:
                index = await off_loop(lambda: Index.open(path, embedder=self._setup.embedder))
                if self._index is not None:  # searches that are under way go on in it
                    self._replaced.append(self._index[1])
                self._index, self._filled = (which, index), False
        self._filled = self._filled or index.count > 0  # once: whoever counts may have to wait for a search
        if not self._filled:
            raise NoIndex(
                f"There is nothing to search in: the index {path} is empty. Fill it with: clicket index FOLDER."
            )
        return index


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
