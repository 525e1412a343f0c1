"""`clicket config`: shows each setting and the source of its value."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from clicket.cli.context import Context

__all__ = ["config"]


def config(context: Context) -> None:
    """Show each setting and the source of its value."""
    terminal, settings = context.terminal, context.settings
    values = {**settings.shown(), "store": context.store_url}
    if terminal.json:
        terminal.print_json(
            {name: {"value": value, "origin": settings.origins.get(name, "default")} for name, value in values.items()}
        )
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bright_black", pad_edge=False)
    table.add_column("SETTING", no_wrap=True)
    table.add_column("VALUE", overflow="fold")
    table.add_column("FROM", no_wrap=True)
    for name, value in values.items():
        origin = settings.origins.get(name)
        shown = Text(_shown(value))
        table.add_row(name, shown, Text(origin or "default", style="cyan" if origin else "bright_black"))
    terminal.out.print(table)


def _shown(value: Any) -> str:
    if value is None or value in ([], (), {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and not all(isinstance(each, int | float) for each in value.values()):
        return msgspec.json.encode(value).decode()
    if isinstance(value, dict):
        return ", ".join(f"{name}={each:g}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in value)
    return str(value)
