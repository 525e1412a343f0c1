"""What a command works with: its terminal, the settings, the tools that were found, and a runtime over the store.

A command that only watches opens the store without tools: such a runtime takes nothing over, and never makes a new store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from clicket.cli.formatting import shown_url
from clicket.cli.terminal import Terminal
from clicket.errors import NotFound, UsageError, did_you_mean
from clicket.model import Record
from clicket.ports import Query
from clicket.settings import Settings

if TYPE_CHECKING:  # a command that only reads needs no runtime, and one that makes calls needs no reader
    from clicket.reader import Reader
    from clicket.runtime import Runtime

__all__ = ["Session", "find_call", "join_declared", "summary_of"]

_MOST_NAMED = 100
_View = TypeVar("_View", "Runtime", "Reader")


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
        from clicket.cli.tool_loader import find_tools

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


async def find_call(
    runtime: _View, id: str | None, thread: str | None, caller: str | None = None
) -> tuple[_View, Record]:
    """A call by its id, its short name, the provider's id or a prefix that only one call has; the newest one when no id is given.

    `caller`: whose call it is; None: anybody's. The first of the pair is the runtime in the name of the call's caller.
    """
    sees = runtime if caller is None else runtime.acting_for(caller)
    if id is None:
        newest = await sees.history(thread=thread, limit=1)
        if not newest.items:
            raise NotFound("there are no calls yet. `clicket call TOOL` makes one, `clicket demo` makes many.")
        record = newest.items[0]
    else:
        try:
            record = await sees.get(id, thread=thread)
        except NotFound:
            record = await _find_by_prefix(sees, id, thread, caller)
        except UsageError as several:
            raise await _which(sees, id, thread, caller, several) from None
    return runtime.acting_for(record.caller), record


async def _which(
    runtime: Runtime | Reader, id: str, thread: str | None, caller: str | None, several: UsageError
) -> UsageError:
    """What to write to name one of several calls."""
    found = [stored for stored in await runtime.store.load(id, thread, caller) if stored.damaged is None]
    if len(found) < 2:
        return UsageError(f"{several.message} On a command line: --thread, --caller.")
    first = [stored.events[0].data for stored in found]
    places = sorted((data["thread"], data.get("caller", "")) for data in first)
    shown = "; ".join(f"--thread {thread!r} --caller {whose!r}" for thread, whose in places[:5])
    more = "; …" if len(places) > 5 else ""
    return UsageError(f"{len(places)} calls have the id {id!r}; say which: {shown}{more}.")


async def _find_by_prefix(runtime: Runtime | Reader, prefix: str, thread: str | None, caller: str | None) -> Record:
    store = runtime.store
    found = await store.history(Query(id_prefix=prefix, thread=thread, caller=caller, limit=_MOST_NAMED))
    if len(found) == 1:
        return await runtime.get(found[0].id, thread=thread)
    if not found:
        recent = await store.history(Query(thread=thread, caller=caller, limit=_MOST_NAMED))
        raise NotFound(
            f"there is no call {prefix!r}.{did_you_mean(prefix, [stored.id for stored in recent])} "
            "`clicket ps --all` lists what is there; ended calls are swept after a day unless `retention` says otherwise."
        )
    ids = [stored.id for stored in found]
    if len(set(ids)) == 1:
        raise await _which(runtime, ids[0], thread, caller, UsageError(f"several calls have the id {ids[0]!r}."))
    count = f"{len(ids)}{'+' if len(ids) == _MOST_NAMED else ''}"
    shown = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
    raise UsageError(f"{count} calls begin with {prefix!r} ({shown}); write more of the id.")


def summary_of(record: Record) -> dict[str, Any]:
    """A call on one line, for lists: everything but its events and its output."""
    whole: dict[str, Any] = msgspec.to_builtins(record)
    for name in ("events", "output", "content", "stages", "arguments"):
        del whole[name]
    return {**whole, "attempts": len(record.attempts), "success": record.success}
