"""What a command works with: its terminal, the settings, the tools that were found, and a runtime over the store.

A command that only watches opens the store without tools: such a runtime takes nothing over, and never makes a new store.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from clicket.cli.load import find_tools
from clicket.cli.terminal import Terminal
from clicket.compose import open_store
from clicket.errors import NotFound, UsageError, did_you_mean
from clicket.model import Record
from clicket.runtime import Runtime
from clicket.settings import Settings

__all__ = ["Session", "find_call", "summary_of"]

_PAGE = 500
_MOST_SCANNED = 20_000


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
        return find_tools(self.settings, warn=lambda text: self.terminal.say(f"warning: {text}", style="yellow"))

    @property
    def store_path(self) -> Path | None:
        """The file of the store, if it lives in one."""
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
        """For commands that run calls."""
        return Runtime(self.tools, settings=self.settings)

    def watcher(self) -> Runtime:
        """For commands that look at calls: it leaves the calls of others alone."""
        if not self.store_exists:
            raise NotFound(f"there is no store {self.settings.store} yet, so no calls. {self.store_hint}")
        return Runtime((), settings=self.settings)

    @property
    def store_hint(self) -> str:
        if self.store_path is None:
            return "A store in memory is seen by its own process alone; pass --store sqlite:///path to share one."
        return "It is made by the first call; `--store` or CLICKET_STORE name another."


async def find_call(runtime: Runtime, id: str | None, thread: str | None) -> Record:
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


async def _find_by_prefix(runtime: Runtime, prefix: str, thread: str | None) -> Record:
    matches: list[Record] = []
    seen: list[str] = []
    cursor: str | None = None
    while len(seen) < _MOST_SCANNED:
        page = await runtime.history(thread=thread, limit=_PAGE, cursor=cursor)
        seen.extend(record.id for record in page.items)
        matches.extend(record for record in page.items if record.id.startswith(prefix))
        cursor = page.cursor
        if cursor is None:
            break
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise NotFound(
            f"there is no call {prefix!r}.{did_you_mean(prefix, seen[:_PAGE])} `clicket ps --all` lists what is there; "
            "ended calls are swept after a day unless `retention` says otherwise."
        )
    if len({record.id for record in matches}) == 1:
        threads = ", ".join(repr(record.thread) for record in matches)
        raise UsageError(f"several threads have a call {matches[0].id!r} ({threads}); say which with --thread.")
    shown = ", ".join(record.id for record in matches[:5]) + (", …" if len(matches) > 5 else "")
    raise UsageError(f"{len(matches)} calls begin with {prefix!r} ({shown}); write more of the id.")


def summary_of(record: Record) -> dict[str, Any]:
    """A call on one line, for lists: everything but its events and its output."""
    whole: dict[str, Any] = msgspec.to_builtins(record)
    for name in ("events", "output", "content", "stages", "arguments"):
        del whole[name]
    return {**whole, "attempts": len(record.attempts), "success": record.success}
