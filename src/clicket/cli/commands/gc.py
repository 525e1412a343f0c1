"""`clicket gc`: sweep what has been kept long enough. Calls under way are never touched."""

from __future__ import annotations

import time
from typing import Annotated, Self

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

from clicket.cli.session import Session
from clicket.cli.terminal import Terminal
from clicket.cli.words import duration, parse_duration, size
from clicket.model import Page
from clicket.ports import Keep, Sweep
from clicket.runtime import Runtime

__all__ = ["gc"]

_STEP = 200


async def gc(
    session: Session,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Ended so long ago: 24h, 7d; `retention` if left out.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and remove nothing.")] = False,
) -> None:
    """Remove ended calls and artifacts that are older than the retention."""
    terminal = session.terminal
    age = session.settings.retention if older_than is None else parse_duration(older_than)
    before = time.time() - age
    swept = Sweep()
    if session.store_exists:
        async with session.watcher() as runtime:
            with _Counter(terminal) as counter:
                if dry_run:
                    swept.calls = await _count(runtime, before, counter)
                else:
                    swept = await _sweep(runtime, before, counter)
    if terminal.json:
        removed = {"calls": swept.calls, "artifacts": swept.artifacts, "bytes": swept.bytes}
        terminal.print_json({**removed, "older_than": age, "dry_run": dry_run})
    elif dry_run:
        terminal.write(f"{swept.calls} calls ended more than {duration(age)} ago; nothing was removed.\n")
    else:
        freed = f", {swept.artifacts} artifacts ({size(swept.bytes)})" if swept.artifacts else ""
        terminal.write(f"removed {swept.calls} calls that ended more than {duration(age)} ago{freed}.\n")


async def _sweep(runtime: Runtime, before: float, counter: _Counter) -> Sweep:
    """In small steps, which let writers through."""
    total, more = Sweep(), True
    while more:
        step = await runtime.engine.store.sweep(Keep(since=before), _STEP)
        total.calls += step.calls
        total.artifacts += step.artifacts
        total.bytes += step.bytes
        more = step.more
        counter.show(f"{total.calls} calls removed")
    return total


async def _count(runtime: Runtime, before: float, counter: _Counter) -> int:
    count, seen = 0, 0
    page = Page(items=[], cursor=None)
    while True:
        page = await runtime.history(limit=_STEP, cursor=page.cursor)
        seen += len(page.items)
        count += sum(1 for record in page.items if record.ended_at is not None and record.ended_at < before)
        counter.show(f"{seen} calls looked at, {count} old enough")
        if page.cursor is None:
            return count


class _Counter:
    """A number that grows, where somebody sees it."""

    def __init__(self, terminal: Terminal) -> None:
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), console=terminal.err, transient=True,
            disable=not terminal.interactive,
        )  # fmt: skip
        self._task = self._bar.add_task("looking")

    def show(self, text: str) -> None:
        self._bar.update(self._task, description=text)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
