"""`clicket cache`: shows and removes cached results, which equal calls get without running their tool."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from clicket.cli.context import Context
from clicket.cli.formatting import ago, duration, parse_duration, size
from clicket.cli.terminal import clean
from clicket.model.ports import CacheStats
from clicket.runtime.views.cache import CachePage

__all__ = ["clear", "list_results", "stats"]

TagOption = Annotated[
    str | None, typer.Option(metavar="TAG", help="Only results with this tag: `tool:NAME`, or one of the tool's own.")
]


async def stats(context: Context) -> None:
    """Show the number and size of cached results, and the hit rate.

    The store counts them, for all processes together, since it was made.
    """
    terminal = context.terminal
    found = CacheStats()
    if context.store_exists:
        async with context.watcher() as runtime:
            found = await runtime.cache.stats()
    lookups = found.hits + found.misses
    rate = found.hits / lookups if lookups else None
    most = context.settings.cache.max_bytes
    if terminal.json:
        terminal.print_json({**msgspec.to_builtins(found), "hit_rate": rate, "max_bytes": most})
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("results", f"{found.items:,}")
    table.add_row("size", f"{size(found.bytes)} of {size(most)}")
    table.add_row("hit rate", "no lookups yet" if rate is None else f"{rate:.1%}")
    table.add_row("hits", f"{found.hits:,}")
    table.add_row("misses", f"{found.misses:,}")
    table.add_row("evictions", f"{found.evictions:,}")
    terminal.out.print(table)


async def list_results(
    context: Context,
    tag: TagOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most N results.")] = 100,
) -> None:
    """List cached results, those that expire soonest first."""
    terminal = context.terminal
    page = CachePage(items=[])
    if context.store_exists:
        async with context.watcher() as runtime:
            page = await runtime.cache.list(tag=tag, limit=limit)
    if terminal.json:
        terminal.print_json(msgspec.to_builtins(page))
        return
    if not page.items:
        terminal.write("nothing is cached.\n")
        return
    now = time.time()
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("KEY", "TOOL", "MADE", "USED", "USES", "EXPIRES IN", "SIZE", "TAGS"):
        table.add_column(name, no_wrap=name != "TAGS", overflow="fold" if name == "TAGS" else "ellipsis")
    for each in page.items:
        tags = ", ".join(clean(one) for one in each.tags if not one.startswith("tool:"))
        used = ago(each.accessed_at) if each.access_count else ""
        table.add_row(
            each.key[:12], clean(each.tool), ago(each.created_at), used, f"{each.access_count:,}",
            duration(max(each.expires_at - now, 0)), size(each.size), tags,
        )  # fmt: skip
    terminal.out.print(table)
    if page.cursor is not None:
        terminal.write(f"There are more than these {len(page.items)}: raise --limit.\n")


async def clear(
    context: Context,
    tag: TagOption = None,
    max_age: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only results that are older: 90s, 15m, 2h.")
    ] = None,
) -> None:
    """Remove cached results: all of them, or those with a tag, or old ones."""
    terminal = context.terminal
    removed = 0
    seconds = None if max_age is None else parse_duration(max_age)
    if context.store_exists:
        async with context.watcher() as runtime:
            removed = await runtime.cache.clear(tag=tag, max_age=seconds)
    if terminal.json:
        terminal.print_json({"removed": removed, "tag": tag, "max_age": seconds})
    else:
        terminal.write(f"removed {removed} cached results{f' with the tag {tag}' if tag else ''}.\n")
