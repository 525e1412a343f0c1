"""`clicket gc`: removes ended calls that are too old or too many. Active calls are never removed."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
import typer

from clicket.cli.context import Context
from clicket.cli.formatting import duration, parse_duration, parse_size, size
from clicket.cli.progress_bar import ProgressBar
from clicket.cli.terminal import Terminal
from clicket.model.ports import Keep, Sweep
from clicket.runtime.runtime import Runtime

__all__ = ["gc"]

_STEP = 200
_LINE_EVERY = 1.0


async def gc(
    context: Context,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Remove calls that ended longer ago: 24h, 7d; default: `retention`."),
    ] = None,
    keep_calls: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Keep at most N calls; default: `retention_calls`.")
    ] = None,
    keep_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Keep at most this size: 500MB, 2GiB; default: `retention_bytes`."),
    ] = None,
    keep_thread_calls: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Keep at most N calls in each thread; default: `thread_retention_calls`."
        ),
    ] = None,
    keep_thread_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Keep at most this size in each thread; default: `thread_retention_bytes`."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and remove nothing.")] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Then return free space to the disk. Writers wait meanwhile.")
    ] = False,
) -> None:
    """Remove ended calls and their artifacts that are older than the retention, or exceed another limit."""
    terminal = context.terminal
    age = context.settings.retention.age if older_than is None else parse_duration(older_than)
    given = {
        "calls": keep_calls,
        "bytes": None if keep_bytes is None else parse_size(keep_bytes),
        "thread_calls": keep_thread_calls,
        "thread_bytes": None if keep_thread_bytes is None else parse_size(keep_thread_bytes),
    }
    swept = Sweep()
    keep = Keep(**given)
    freed = None
    if context.store_exists:
        async with context.watcher() as runtime:
            bounds = {name: value for name, value in given.items() if value is not None}
            keep = msgspec.structs.replace(runtime.retention(time.time() - age), **bounds)
            swept = await _sweep(runtime, keep, terminal, dry=dry_run)
            if compact and not dry_run:
                freed = await _compact(runtime, terminal)
    if terminal.json:
        removed = {"calls": swept.calls, "artifacts": swept.artifacts, "bytes": swept.bytes}
        limits = {name: getattr(keep, name) for name in given}
        terminal.print_json({**removed, "older_than": age, "keep": limits, "dry_run": dry_run, "compacted": freed})
        return
    which = f"ended more than {duration(age)} ago{_beyond(keep)}"
    if dry_run:
        terminal.write(f"{swept.calls} calls {which} ({size(swept.bytes)}); nothing was removed.\n")
        return
    also = f" and {swept.artifacts} artifacts" if swept.artifacts else ""
    terminal.write(f"removed {swept.calls} calls that {which}{also}; {size(swept.bytes)} freed.\n")
    if freed is not None:
        terminal.write(f"compacted: {size(freed)} returned to the disk.\n")


def _beyond(keep: Keep) -> str:
    """The limits beside age, in words."""
    bounds = [
        f"{count} {'in a thread' if 'thread' in name else 'in all'}"
        for name, count in (
            ("calls", _count(keep.calls)),
            ("bytes", _size(keep.bytes)),
            ("thread_calls", _count(keep.thread_calls)),
            ("thread_bytes", _size(keep.thread_bytes)),
        )
        if count is not None
    ]
    return f" or exceed {', '.join(bounds)}" if bounds else ""


def _count(bound: int | None) -> str | None:
    return None if bound is None else f"{bound:,} calls"


def _size(bound: int | None) -> str | None:
    return None if bound is None else size(bound)


async def _sweep(runtime: Runtime, keep: Keep, terminal: Terminal, *, dry: bool) -> Sweep:
    with ProgressBar(terminal, "counting", line_every=_LINE_EVERY) as bar:
        total = None
        if dry or terminal.interactive:
            counted = await runtime.store.sweep(keep, _STEP, dry=True)
            if dry:
                return counted
            total = counted.calls

        def show(swept: Sweep) -> None:
            bar.show(f"{swept.calls} calls removed, {size(swept.bytes)}", done=swept.calls, total=total)

        return await runtime.sweep(keep, progress=show)


async def _compact(runtime: Runtime, terminal: Terminal) -> int | None:
    """The bytes that were returned to the disk; None if the store needs no compacting."""
    store: Any = runtime.store
    if not hasattr(store, "compact"):
        if not terminal.json:
            terminal.say(f"{store.url} needs no compacting.", style="bright_black")
        return None
    before: int = await store.size()
    await store.compact()
    after: int = await store.size()
    return max(before - after, 0)
