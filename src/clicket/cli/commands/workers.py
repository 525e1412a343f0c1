"""`clicket workers`: lists the workers over a store, and sets their states."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from clicket.cli.columns import Column, fitted
from clicket.cli.context import Context
from clicket.cli.formatting import ago, short
from clicket.cli.terminal import Terminal, clean
from clicket.engine.fleet.worker_list import listed_workers
from clicket.errors import NotFound, UsageError
from clicket.model.worker import WorkerInfo, WorkerState

__all__ = ["STATE_STYLES", "cordon", "drain", "list_workers", "uncordon"]

STATE_STYLES: dict[WorkerState, str] = {"active": "green", "draining": "yellow", "cordoned": "yellow", "lost": "red"}
IdsArgument = Annotated[list[str], typer.Argument(metavar="ID...", help="Workers; the beginning of an id is enough.")]


async def list_workers(context: Context) -> None:
    """List the workers: host, process, tools, load, state and last sign of life.

    A worker that ended without signing off is listed as lost for an hour.
    """
    found: list[WorkerInfo] = []
    if context.store_exists:
        async with context.reader() as reader:
            found = await listed_workers(reader.store)
    if context.terminal.json:
        context.terminal.print_json({"items": msgspec.to_builtins(found)})
        return
    if found:
        print_workers(context.terminal, found)
    else:
        context.terminal.say("no worker is there. `clicket worker --tools MODULE` starts one.", style="bright_black")


async def drain(context: Context, ids: IdsArgument) -> None:
    """Let workers finish what runs there, hand over what waits, and take nothing new.

    Worker processes end then. A worker knows it within a third of its lease (`lease`, by default 10 s).
    """
    await _set(context, ids, "drain")


async def cordon(context: Context, ids: IdsArgument) -> None:
    """Let workers take no new calls.

    What they hold goes on there.
    """
    await _set(context, ids, "cordon")


async def uncordon(context: Context, ids: IdsArgument) -> None:
    """Let workers take calls again."""
    await _set(context, ids, "uncordon")


async def _set(context: Context, ids: Sequence[str], action: str) -> None:
    async with context.watcher() as runtime:
        known = [worker.id for worker in await runtime.workers.list()]
        named = [_resolved(id, known) for id in ids]  # all of them, before any is changed
        changed = [await getattr(runtime.workers, action)(id) for id in named]
    if context.terminal.json:
        context.terminal.print_json({"items": msgspec.to_builtins(changed)})
        return
    for worker in changed:
        context.terminal.write(f"{clean(worker.id)} is {worker.state}.\n")


def _resolved(prefix: str, known: Sequence[str]) -> str:
    found = [id for id in known if id == prefix] or [id for id in known if id.startswith(prefix)]
    if not found:
        raise NotFound(f"there is no worker {prefix!r:.200}. `clicket workers` lists them.")
    if len(found) > 1:
        raise UsageError(f"{len(found)} workers begin with {prefix!r} ({', '.join(found[:5])}); write more of the id.")
    return found[0]


def print_workers(terminal: Terminal, workers: Sequence[WorkerInfo]) -> None:
    now = time.time()
    columns = [
        Column("ID", [clean(each.id) for each in workers], keep=True),
        Column("STATE", [Text(each.state, style=STATE_STYLES[each.state]) for each in workers], keep=True),
        Column("RUNNING", [f"{each.running}/{each.capacity}" for each in workers], rank=8, right=True),
        Column("ROLE", [each.role for each in workers], rank=3),
        Column("SEEN", [ago(min(each.seen_at, now)) for each in workers], rank=6, style="bright_black"),
        Column("UP", [ago(min(each.started_at, now)) for each in workers], rank=1, style="bright_black"),
        Column("VERSION", [clean(each.version) for each in workers], rank=2),
        Column("LABELS", [short(",".join(each.labels), 30) for each in workers], rank=5),
        Column("TOOLS", [short(", ".join(sorted(each.tools)), 60) for each in workers], rank=4, least=12),
    ]
    terminal.out.print(fitted(columns, terminal.out.width))
