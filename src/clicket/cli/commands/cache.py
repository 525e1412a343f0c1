"""`clicket cache`: the results that equal calls may have without running their tool."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.table import Table

from clicket.cli.session import Session
from clicket.cli.words import size
from clicket.ports import CacheStats

__all__ = ["clear", "stats"]


async def stats(session: Session) -> None:
    """Show how many results are cached, how much they take, and how often they served.

    Counted by the store: by all processes together, since it was made.
    """
    terminal, found = session.terminal, CacheStats()
    if session.store_exists:
        async with session.watcher() as runtime:
            found = await runtime.cache.stats()
    asked = found.hits + found.misses
    rate = found.hits / asked if asked else None
    most = session.settings.cache_max_bytes
    if terminal.json:
        terminal.print_json({**msgspec.to_builtins(found), "hit_rate": rate, "max_bytes": most})
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("results", f"{found.items:,}")
    table.add_row("size", f"{size(found.bytes)} of {size(most)}")
    table.add_row("hit rate", "nothing was asked for yet" if rate is None else f"{rate:.1%}")
    table.add_row("hits", f"{found.hits:,}")
    table.add_row("misses", f"{found.misses:,}")
    table.add_row("evictions", f"{found.evictions:,}")
    terminal.out.print(table)


async def clear(
    session: Session,
    tag: Annotated[
        str | None,
        typer.Option(metavar="TAG", help="Only results with this tag: `tool:NAME`, or one of the tool's own."),
    ] = None,
) -> None:
    """Remove cached results: all of them, or those with a tag."""
    terminal, removed = session.terminal, 0
    if session.store_exists:
        async with session.watcher() as runtime:
            removed = await runtime.cache.clear(tag=tag)
    if terminal.json:
        terminal.print_json({"removed": removed, "tag": tag})
    else:
        terminal.write(f"removed {removed} cached results{f' with the tag {tag}' if tag else ''}.\n")
