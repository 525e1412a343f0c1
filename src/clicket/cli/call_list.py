"""Lists of calls, and pages of lists, as commands print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.text import Text

from clicket.cli.columns import Column, fitted
from clicket.cli.formatting import short, shortened
from clicket.cli.terminal import Terminal, clean

__all__ = ["Listed", "call_columns", "print_more", "print_page"]


class Listed(Protocol):
    """What every list of calls shows."""

    @property
    def id(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def thread(self) -> str: ...
    @property
    def caller(self) -> str: ...


def call_columns(calls: Sequence[Listed], *, thread_rank: int) -> list[Column]:
    """Which calls they are: the first columns of the list. The caller ranks next above the thread."""
    ids = shortened([call.id for call in calls])
    return [
        Column("ID", [clean(ids[call.id]) for call in calls], keep=True),
        Column("TOOL", [Text(clean(call.tool), style="bold") for call in calls], rank=8),
        Column("THREAD", [short(call.thread, 20) for call in calls], rank=thread_rank),
        Column("CALLER", [short(call.caller, 20) for call in calls], rank=thread_rank + 1),
    ]


def print_page(terminal: Terminal, columns: Sequence[Column], cursor: str | None = None) -> None:
    terminal.out.print(fitted(columns, terminal.out.width))
    print_more(terminal, cursor)


def print_more(terminal: Terminal, cursor: str | None) -> None:
    """How to get the next page, if there is one."""
    if cursor is not None:
        terminal.say(f"more: --cursor {cursor}", style="bright_black")
