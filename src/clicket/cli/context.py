"""What a command gets: its terminal, the settings, the tools, and a runtime over the store.

A command that only reads or decides opens a runtime without tools, which takes over no calls and never makes a new store.
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
from clicket.model.ports import Query
from clicket.runtime.settings import Settings

if TYPE_CHECKING:  # each command imports only the one that it needs
    from clicket.runtime.reader import Reader
    from clicket.runtime.runtime import Runtime

__all__ = ["Context", "find_call", "join_declared", "summary_of"]

_MAX_MATCHES = 100
_View = TypeVar("_View", "Runtime", "Reader")


class Context:
    """The terminal, settings, tools and store of one command."""

    def __init__(self, terminal: Terminal, *, store: str | None = None, tools: Sequence[str] | None = None) -> None:
        self.terminal = terminal
        self._store = store
        self._tools = tuple(tools) if tools else None

    @cached_property
    def settings(self) -> Settings:
        return Settings.load(store=self._store, tools=self._tools)

    @cached_property
    def tools(self) -> list[Any]:
        """All tools. A plug-in that cannot be loaded is a warning; an error in a tool that the user named is raised."""
        from clicket.cli.tool_loader import find_tools

        return find_tools(self.settings, warn=lambda text: self.terminal.say(f"warning: {text}", style="yellow"))

    @cached_property
    def deps(self) -> dict[str, Any]:
        """The factories of the setting `deps`."""
        if not self.settings.deps:
            return {}
        from clicket.cli.tool_loader import find_named

        return {name: find_named(spec, f"deps.{name} = {spec!r}") for name, spec in self.settings.deps.items()}

    @property
    def needed_tools(self) -> list[Any]:
        """The tools. Raises `UsageError` if there are none."""
        if not self.tools and not self.settings.mcp:
            raise UsageError(
                "there are no tools. Name some with --tools module:name, list them in clicket.toml "
                '(tools = ["module"]), or install a package that offers them.'
            )
        return self.tools

    @property
    def store_url(self) -> str:
        """The URL of the store without its password."""
        return shown_url(self.settings.store)

    @property
    def store_path(self) -> Path | None:
        """The file of the store, if it is one."""
        from clicket.runtime.compose import open_store

        path: Path | None = getattr(open_store(self.settings), "path", None)
        return path

    @property
    def store_exists(self) -> bool:
        """Does the store exist? A store in memory belongs to another process, and does not exist here."""
        if self.settings.store.startswith(("memory:", "sqlite:")):
            path = self.store_path
            return path is not None and path.exists()
        return True

    def runtime(self) -> Runtime:
        """A runtime for commands that make calls."""
        from clicket.runtime.runtime import Runtime

        return Runtime(self.tools, deps=self.deps, settings=self.settings)

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[Runtime]:
        """An open runtime that also has the tools of the MCP servers in `clicket.toml`."""
        async with self.runtime() as runtime:
            await join_declared(runtime)
            yield runtime

    def host(self, **settings: Any) -> Runtime:
        """A runtime for commands that run calls of other processes. It claims nothing before it gets tools."""
        if self.settings.store.startswith("memory:"):
            raise UsageError("a store in memory is only visible to its own process. Pass --store with one to share.")
        from clicket.runtime.runtime import Runtime

        return Runtime((), deps=self.deps, settings=self.settings.replace(**settings))

    def watcher(self) -> Runtime:
        """A runtime for commands that act on existing calls. It has no tools, so it takes over no calls."""
        self._need_store()
        from clicket.runtime.runtime import Runtime

        return Runtime((), settings=self.settings)

    def reader(self) -> Reader:
        """A reader for commands that only read calls. It starts faster than a runtime."""
        self._need_store()
        from clicket.runtime.reader import Reader

        return Reader(self.settings)

    def _need_store(self) -> None:
        if not self.store_exists:
            raise NotFound(f"there is no store {self.store_url} yet, so no calls. {self.store_hint}")

    @property
    def store_hint(self) -> str:
        if self.store_path is None:
            return "A store in memory is only visible to its own process; pass --store sqlite:///path to share one."
        return "The first call makes it; `--store` or CLICKET_STORE name another."


async def join_declared(runtime: Runtime) -> None:
    """Add the tools of the MCP servers in the settings. Without any, the extra `mcp` is not needed."""
    if runtime.settings.mcp:
        try:
            from clicket.adapters.mcp import join_declared as join
        except ModuleNotFoundError as missing:
            raise UsageError(
                f"[mcp.servers] needs the package {missing.name!r}. Install it with: pip install 'clicket[mcp]'."
            ) from None
        await join(runtime)


async def find_call(
    runtime: _View, id: str | None, thread: str | None, caller: str | None = None
) -> tuple[_View, Record]:
    """Find a call by its id, the provider's id or a unique prefix; without an id the newest call.

    `caller`: only calls of this caller; None: of all callers. Returns the runtime as the call's caller sees it, and the record.
    """
    view = runtime if caller is None else runtime.acting_for(caller)
    if id is None:
        newest = await view.history(thread=thread, limit=1)
        if not newest.items:
            raise NotFound("there are no calls yet. `clicket call TOOL` makes one, `clicket demo` makes many.")
        record = newest.items[0]
    else:
        try:
            record = await view.get(id, thread=thread)
        except NotFound:
            record = await _find_by_prefix(view, id, thread, caller)
        except UsageError as several:
            raise await _ambiguous(view, id, thread, caller, several) from None
    return runtime.acting_for(record.caller), record


async def _ambiguous(
    runtime: Runtime | Reader, id: str, thread: str | None, caller: str | None, several: UsageError
) -> UsageError:
    """The error for an id that several calls have, with the options that name one of them."""
    found = [stored for stored in await runtime.store.load(id, thread, caller) if stored.damaged is None]
    if len(found) < 2:
        return UsageError(f"{several.message} On a command line: --thread, --caller.")
    first = [stored.events[0].data for stored in found]
    places = sorted((data["thread"], data.get("caller", "")) for data in first)
    shown = "; ".join(f"--thread {thread!r} --caller {whose!r}" for thread, whose in places[:5])
    more = "; …" if len(places) > 5 else ""
    return UsageError(f"{len(places)} calls have the id {id!r}; name one: {shown}{more}.")


async def _find_by_prefix(runtime: Runtime | Reader, prefix: str, thread: str | None, caller: str | None) -> Record:
    store = runtime.store
    found = await store.history(Query(id_prefix=prefix, thread=thread, caller=caller, limit=_MAX_MATCHES))
    if len(found) == 1:
        return await runtime.get(found[0].id, thread=thread)
    if not found:
        recent = await store.history(Query(thread=thread, caller=caller, limit=_MAX_MATCHES))
        raise NotFound(
            f"there is no call {prefix!r}.{did_you_mean(prefix, [stored.id for stored in recent])} "
            "`clicket ps --all` lists what is there; ended calls are removed after `retention`, by default a day."
        )
    ids = [stored.id for stored in found]
    if len(set(ids)) == 1:
        raise await _ambiguous(runtime, ids[0], thread, caller, UsageError(f"several calls have the id {ids[0]!r}."))
    count = f"{len(ids)}{'+' if len(ids) == _MAX_MATCHES else ''}"
    shown = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
    raise UsageError(f"{count} calls begin with {prefix!r} ({shown}); write more of the id.")


def summary_of(record: Record) -> dict[str, Any]:
    """A call in a list: everything except its events, stages, arguments and output."""
    whole: dict[str, Any] = msgspec.to_builtins(record)
    for name in ("events", "output", "content", "stages", "arguments"):
        del whole[name]
    return {
        **whole,
        "attempts": len(record.attempts),
        "worker": record.worker,
        "host": record.host,
        "success": record.success,
    }
