"""What a command works with: its terminal, the settings, the tools that were found, and a runtime over the store.

A command that only watches opens the store without tools: such a runtime takes nothing over, and never makes a new store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from clicket.cli.terminal import Terminal
from clicket.cli.words import shown_url
from clicket.errors import NotFound, UsageError, did_you_mean
from clicket.model import Record
from clicket.ports import Query
from clicket.settings import Settings

if TYPE_CHECKING:  # a command that only reads needs no runtime, and one that makes calls needs no reader
    from clicket.reader import Reader
    from clicket.runtime import Runtime

__all__ = ["Session", "find_call", "join_declared", "summary_of"]

_MOST_NAMED = 100


class Session:
    """One command's surroundings."""

    def __init__(self, terminal: Terminal, *, store: str | None = None, tools: Sequence[str] | None = None) -> None:
        self.terminal = terminal
        self._store = store
        self._tools = tuple(tools) if tools else None

    @cached_property
    def settings(self) -> Settings:
        return Settings.load(store=self._store, tools=self._tools)

    @cached_property
    def tools(self) -> list[Any]:
        """Every tool that can be found; what is broken elsewhere than in the user's own words is a warning."""
        from clicket.cli.load import find_tools

        return find_tools(self.settings, warn=lambda text: self.terminal.say(f"warning: {text}", style="yellow"))

    @property
    def needed_tools(self) -> list[Any]:
        """The tools, for a command that is of no use without any."""
        if not self.tools and not self.settings.mcp:
            raise UsageError(
                "no tools were found. Name some with --tools module:name, list them in clicket.toml "
                '(tools = ["module"]), or install a package that offers them.'
            )
        return self.tools

    @property
    def store_url(self) -> str:
        """The store as it may be shown."""
        return shown_url(self.settings.store)

    @property
    def store_path(self) -> Path | None:
        """The file of the store, if it lives in one."""
        from clicket.compose import open_store

        path: Path | None = getattr(open_store(self.settings), "path", None)
        return path

    @property
    def store_exists(self) -> bool:
        """Is there something to look at? A store in memory belongs to its process: from here it is always empty."""
        if self.settings.store.startswith(("memory:", "sqlite:")):
            path = self.store_path
            return path is not None and path.exists()
        return True

    def runtime(self) -> Runtime:
        """For commands that make calls."""
        from clicket.runtime import Runtime

        return Runtime(self.tools, settings=self.settings)

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[Runtime]:
        """An open runtime that has, beside its own tools, those of the MCP servers that `clicket.toml` declares."""
        async with self.runtime() as runtime:
            await join_declared(runtime)
            yield runtime

    def host(self, **settings: Any) -> Runtime:
        """For commands that run other people's calls: it takes nothing before it is given tools."""
        if self.settings.store.startswith("memory:"):
            raise UsageError("a store in memory is seen by its own process alone. Pass --store with one to share.")
        from clicket.runtime import Runtime

        return Runtime((), settings=self.settings.replace(**settings))

    def watcher(self) -> Runtime:
        """For commands that act on calls: it leaves the calls of others alone."""
        self._need_store()
        from clicket.runtime import Runtime

        return Runtime((), settings=self.settings)

    def reader(self) -> Reader:
        """For commands that only read calls. It starts in a fraction of the time."""
        self._need_store()
        from clicket.reader import Reader

        return Reader(self.settings)

    def _need_store(self) -> None:
        if not self.store_exists:
            raise NotFound(f"there is no store {self.store_url} yet, so no calls. {self.store_hint}")

    @property
    def store_hint(self) -> str:
        if self.store_path is None:
            return "A store in memory is seen by its own process alone; pass --store sqlite:///path to share one."
        return "It is made by the first call; `--store` or CLICKET_STORE name another."


async def join_declared(runtime: Runtime) -> None:
    """Add the tools of declared MCP servers, if there are any. Only then is the extra needed."""
    if runtime.settings.mcp:
        try:
            from clicket.mcp import join_declared as join
        except ModuleNotFoundError as missing:
            raise UsageError(
                f"[mcp.servers] needs the package {missing.name!r}. Install it with: pip install 'clicket[mcp]'."
            ) from None
        await join(runtime)


async def find_call(runtime: Runtime | Reader, id: str | None, thread: str | None) -> Record:
    """A call by its id, by a prefix that only one call has, or the newest one when no id is given."""
    if id is None:
        newest = await runtime.history(thread=thread, limit=1)
        if not newest.items:
            raise NotFound("there are no calls yet. `clicket call TOOL` makes one, `clicket demo` makes many.")
        return newest.items[0]
    try:
        return await runtime.get(id, thread=thread)
    except NotFound:
        return await _find_by_prefix(runtime, id, thread)


async def _find_by_prefix(runtime: Runtime | Reader, prefix: str, thread: str | None) -> Record:
    store = runtime.store
    found = await store.history(Query(id_prefix=prefix, thread=thread, limit=_MOST_NAMED))
    if len(found) == 1:
        return await runtime.get(found[0].id, thread=thread)
    if not found:
        recent = await store.history(Query(thread=thread, limit=_MOST_NAMED))
        raise NotFound(
            f"there is no call {prefix!r}.{did_you_mean(prefix, [stored.id for stored in recent])} "
            "`clicket ps --all` lists what is there; ended calls are swept after a day unless `retention` says otherwise."
        )
    ids = [stored.id for stored in found]
    if len(set(ids)) == 1:
        threads = ", ".join(repr(stored.events[0].data["thread"]) for stored in found if stored.damaged is None)
        raise UsageError(f"several threads have a call {ids[0]!r} ({threads}); say which with --thread.")
    count = f"{len(ids)}{'+' if len(ids) == _MOST_NAMED else ''}"
    shown = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
    raise UsageError(f"{count} calls begin with {prefix!r} ({shown}); write more of the id.")


def summary_of(record: Record) -> dict[str, Any]:
    """A call on one line, for lists: everything but its events and its output."""
    whole: dict[str, Any] = msgspec.to_builtins(record)
    for name in ("events", "output", "content", "stages", "arguments"):
        del whole[name]
    return {**whole, "attempts": len(record.attempts), "success": record.success}
