"""Shell completion of tool names, call ids, threads and states. A completion that fails is empty, never an error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import typer

from clicket.cli.context import Context
from clicket.cli.terminal import Terminal
from clicket.kernel import State
from clicket.model import Record

__all__ = ["complete_active", "complete_id", "complete_state", "complete_thread", "complete_tool", "complete_waiting"]

_LIMIT = 200


def complete_tool(ctx: typer.Context, incomplete: str) -> list[str]:
    try:
        names = [tool.name for tool in _context(ctx).tools]
    except Exception:  # a module that cannot be imported: the command itself reports it
        return []
    return sorted(_beginning(names, incomplete))


def complete_state(incomplete: str) -> list[str]:
    return _beginning((str(state) for state in State), incomplete)


def complete_id(ctx: typer.Context, incomplete: str) -> list[str]:
    return _beginning((record.id for record in _calls(ctx)), incomplete)


def complete_active(ctx: typer.Context, incomplete: str) -> list[str]:
    return _beginning((record.id for record in _calls(ctx, active=True)), incomplete)


def complete_waiting(ctx: typer.Context, incomplete: str) -> list[str]:
    return _beginning((record.id for record in _calls(ctx, waiting_for="approval")), incomplete)


def complete_thread(ctx: typer.Context, incomplete: str) -> list[str]:
    return _beginning((record.thread for record in _calls(ctx)), incomplete)


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.startswith(incomplete)]


def _calls(ctx: typer.Context, **query: Any) -> list[Record]:
    """The newest calls of the store, if it exists."""

    async def read() -> list[Record]:
        context = _context(ctx)
        if not context.store_exists:
            return []
        async with context.watcher() as runtime:
            return (await runtime.history(limit=_LIMIT, **query)).items

    try:
        return asyncio.run(read())
    except Exception:  # the store cannot be read
        return []


def _context(ctx: typer.Context) -> Context:
    """A context with the options before the cursor, before the command or after it."""
    given: dict[str, Any] = {}
    above: Any = ctx
    while above is not None:
        for name in ("store", "tools"):
            given[name] = given.get(name) or above.params.get(name)
        above = above.parent
    return Context(Terminal(json=True), store=given["store"], tools=given["tools"])
