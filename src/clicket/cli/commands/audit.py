"""`clicket audit`: lists the decisions of people and of the policy, from an append-only log."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from clicket.cli.context import Context
from clicket.cli.formatting import ago, short
from clicket.cli.terminal import clean

__all__ = ["audit"]


async def audit(
    context: Context,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most N entries, newest first.")] = 50,
    before: Annotated[int | None, typer.Option(metavar="NUMBER", help="Only entries older than this one.")] = None,
) -> None:
    """List the audit log: who approved, denied, reset or cleared what, and what the policy refused."""
    terminal = context.terminal
    found: list[dict[str, Any]] = []
    if context.store_exists:
        async with context.watcher() as runtime:
            found = [msgspec.to_builtins(entry) for entry in await runtime.audit.list(limit=limit, before=before)]
    if terminal.json:
        terminal.print_json({"items": found})
        return
    if not found:
        terminal.say("the audit log is empty.", style="bright_black")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bright_black", pad_edge=False, expand=True)
    for name in ("NUMBER", "WHEN", "WHAT", "WHO"):
        table.add_column(name, no_wrap=True)
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    for entry in found:
        details = "  ".join(
            f"{name}={_shown(value)}" for name, value in entry["details"].items() if value not in ("", None)
        )
        table.add_row(
            str(entry["number"]),
            ago(entry["at"]),
            Text(clean(entry["what"]), style="bold"),
            Text(short(entry["who"], 30)),
            Text(details),
        )
    terminal.out.print(table)


def _shown(value: object) -> str:
    return short(value if isinstance(value, str) else msgspec.json.encode(value).decode(), 80)
